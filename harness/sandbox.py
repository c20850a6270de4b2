"""The sandbox: the only module that knows bubblewrap's options.

A Box says what a command may see; `start` runs it there. The command gets namespaces of its own
(user, pid, ipc, uts, cgroup, and net unless shared), a read-only root holding only what the box
names, and a system call filter. What stops which attempt: docs/security.md.
"""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness import gpu, places, seccomp
from harness.errors import Refused
from harness.limits import NONE, Limits

BASE = f"{places.ROOT}/base"
USER = 1000
HOSTNAME = "harness"
ETC = Path(__file__).with_name("etc")
# Links that make a base look like a system: its loader, its libraries, its shell.
LINKS = (
    (f"{BASE}/lib", "/lib"),
    (f"{BASE}/lib", "/lib64"),
    (f"{BASE}/lib", "/usr/lib"),
    (f"{BASE}/lib", "/usr/lib64"),
    (f"{BASE}/bin/sh", "/bin/sh"),
)
ISOLATION = (
    *("--unshare-user", "--disable-userns", "--uid", str(USER), "--gid", str(USER)),
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", HOSTNAME),
    # "try": a kernel without cgroup namespaces has none to leave; `harness doctor` says so.
    *("--unshare-cgroup-try", "--die-with-parent", "--new-session"),
)
READ_ONLY = ("/proc", "/dev", "/")
MOST_SAID = 64 << 20  # bytes of a small tool's output

Stream = int | IO[bytes] | None


@dataclass(frozen=True)
class Mount:
    """A host file or folder (absolute, existing) shown at `target`; read-only unless `writable`."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Box:
    """What a sandboxed command may see.

    `base` and each path of `closure` are shown read-only at their own paths; `mounts` at their
    targets; `tmpfs` folders are empty and writable, and vanish at the end. `hidden` folders are
    shown empty, whatever a mount has there. `limits` are for who starts it to put in force.
    """

    base: Path
    closure: tuple[Path, ...]
    mounts: tuple[Mount, ...]
    variables: Mapping[str, str]
    cwd: str
    gpus: bool = False
    share_network: bool = False
    tmpfs: tuple[str, ...] = ("/tmp", places.WORK)
    hidden: tuple[str, ...] = ()
    limits: Limits = NONE


def arguments(
    box: Box, command: Sequence[str], seccomp_fd: int, driver: gpu.Driver | None = None
) -> list[str]:
    """The whole bubblewrap command line, as data; `driver` is needed where `box.gpus`."""
    return ["bwrap", *options(box, seccomp_fd, driver), "--", *command]


def options(box: Box, seccomp_fd: int, driver: gpu.Driver | None = None) -> list[str]:
    """bubblewrap's options for `box`. Later mounts cover earlier ones, so order matters."""
    if box.gpus and driver is None:
        raise Refused("a sandbox with GPUs needs the host's driver files")
    result = [*ISOLATION, *(() if box.share_network else ("--unshare-net",))]
    result += ["--seccomp", str(seccomp_fd), "--proc", "/proc", "--dev", "/dev"]
    for folder in ("/dev/shm", *box.tmpfs):
        result += ["--perms", "1777", "--tmpfs", folder]
    for store_path in map(str, dict.fromkeys((box.base, *box.closure))):
        result += ["--ro-bind", store_path, store_path]
    result += ["--ro-bind", str(box.base), BASE, "--ro-bind", str(ETC), "/etc"]
    for target, link in LINKS:
        result += ["--symlink", target, link]
    if driver is not None and box.gpus:
        result += gpu.arguments(driver)
    for mount in box.mounts:
        result += ["--bind" if mount.writable else "--ro-bind", str(mount.source), mount.target]
    for folder in box.hidden:
        result += ["--tmpfs", folder, "--remount-ro", folder]
    # Last, so that everything above could still be put in place.
    for path in READ_ONLY:
        result += ["--remount-ro", path]
    for name, value in environment(box).items():
        result += ["--setenv", name, value]
    return [*result, "--chdir", box.cwd]


def environment(box: Box) -> dict[str, str]:
    """All variables of the sandboxed command: the same on every host."""
    driver = f":{gpu.DRIVER_FOLDER}" if box.gpus else ""
    # Triton looks for the driver by itself, where the loader's path is not enough.
    triton = {"TRITON_LIBCUDA_PATH": gpu.DRIVER_FOLDER} if box.gpus else {}
    return {
        "HOME": places.WORK,
        "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": f"{BASE}/lib{driver}",
        "PATH": f"{places.ENVIRONMENT}/bin:{BASE}/bin:/bin",
        "TZ": "UTC",
        **triton,
        **box.variables,
    }


def start(
    box: Box,
    command: Sequence[str],
    *,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = None,
    stderr: Stream = None,
    before: Callable[[], None] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command` in `box`; its exit status is the command's (128+n for a signal n).

    It dies with the thread that called this. It has a session of its own: to interrupt it, use
    `interrupt`. `before` is called in the new process first. Raises Refused where bubblewrap or a
    mount's source is missing.
    """
    tool = shutil.which("bwrap")
    if tool is None:
        raise Refused("bubblewrap (bwrap) not found: install it; `harness doctor` says how")
    for source in (box.base, *box.closure, *(mount.source for mount in box.mounts)):
        if not source.is_absolute() or not source.exists():
            raise Refused(f"{source}: cannot be shown in the sandbox: no such absolute path")
    driver = gpu.find() if box.gpus else None
    with passed(seccomp.program()) as filter_fd:
        words = "\0".join(options(box, filter_fd, driver))
        # Options go through a descriptor, so that no host path is in /proc/1/cmdline inside.
        with passed(words.encode() + b"\0") as options_fd:
            return subprocess.Popen(
                [tool, "--args", str(options_fd), "--", *command],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                # bubblewrap is process 1 inside: what it inherits, the command could read.
                env={},
                cwd="/",
                pass_fds=(filter_fd, options_fd),
                start_new_session=True,
                preexec_fn=before,
                umask=0o022,
            )


def run(
    box: Box, command: Sequence[str], input: bytes = b"", timeout: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run `command` in `box` to its end, with both outputs captured; for small tools.

    Raises subprocess.TimeoutExpired, with the sandbox dead, after `timeout` seconds; Refused,
    with it dead too, where it says more than any tool of ours has to say.
    """
    pipe = subprocess.PIPE
    with start(box, command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        said = _Said(process, process.stdout), _Said(process, process.stderr)
        threading.Thread(target=_tell, args=(process.stdin, input), daemon=True).start()
        try:
            process.wait(timeout)
        except BaseException:
            process.kill()
            raise
        finally:
            for one in said:
                one.join()
    if any(one.endless for one in said):
        raise Refused(f"{command[0]}: said over {MOST_SAID >> 20} MiB in the sandbox; was ended")
    out, err = (bytes(one.text) for one in said)
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)


def _tell(stream: IO[bytes], text: bytes) -> None:
    """Give a process its input; one that does not want it may have ended."""
    with suppress(OSError), stream:
        stream.write(text)


class _Said(threading.Thread):
    """Keeps what a process says on one stream; ends the process where that never ends."""

    def __init__(self, process: subprocess.Popen[bytes], stream: IO[bytes] | None) -> None:
        super().__init__(daemon=True)
        assert stream is not None  # started with PIPE
        self.process, self.stream = process, stream
        self.text, self.endless = bytearray(), False
        self.start()

    def run(self) -> None:
        while block := os.read(self.stream.fileno(), 1 << 16):
            self.endless = self.endless or len(self.text) > MOST_SAID
            if self.endless:
                self.process.kill()
            else:
                self.text += block


def version() -> str | None:
    """bubblewrap's version, e.g. 0.8.0, or None where it is not installed."""
    tool = shutil.which("bwrap")
    if tool is None:
        return None
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.removeprefix("bubblewrap").strip() or None


def interrupt(process: subprocess.Popen[bytes], signum: signal.Signals) -> None:
    """Send `signum` to the sandboxed command itself, or to bubblewrap where it has not begun.

    bubblewrap passes no signal on: one sent to it kills the command without a chance to save.
    """
    if process.poll() is None:
        pid = command_pid(process)
        os.kill(process.pid if pid is None else pid, signum)


def command_pid(process: subprocess.Popen[bytes]) -> int | None:
    """The host's number of the sandboxed command, or None before it runs or after it ended.

    bubblewrap's child is process 1 of the new pid namespace; the command is process 2.
    """
    parents: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (status := _status(entry)):
            inner = status.get("NSpid", "").split()
            parents.setdefault(int(status["PPid"]), []).append(
                (int(entry.name), (inner or [""])[-1])
            )
    for first, _ in parents.get(process.pid, []):
        for pid, inside in parents.get(first, []):
            if inside == "2":
                return pid
    return None


def _status(entry: Path) -> dict[str, str]:
    """The fields of /proc/<pid>/status; empty if the process is gone."""
    try:
        lines = (entry / "status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@contextmanager
def passed(data: bytes) -> Iterator[int]:
    """A descriptor from which bubblewrap reads `data`, and which it closes before the command."""
    descriptor = os.memfd_create("harness")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)

"""The sandbox's command line, as data, and how a real one starts, ends and is interrupted.

What hostile code inside one can reach: test_sandbox_hostile.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
import sandbox_base
from sandbox_base import PYTHON, box, inside

from harness import gpu, places, sandbox
from harness.errors import Refused
from harness.sandbox import Box, Mount

PLAIN = Box(
    base=Path("/nix/store/b-base"),
    closure=(Path("/nix/store/b-base"), Path("/nix/store/c-wheel")),
    mounts=(Mount(Path("/d"), places.DATA), Mount(Path("/o"), places.OUTPUT, writable=True)),
    variables={"SEED": "1"},
    cwd=places.OUTPUT,
)
DRIVER = gpu.Driver(
    devices=(Path("/dev/nvidia0"),),
    libraries=(("libcuda.so.1", Path("/usr/lib/libcuda.so.550")),),
    sys=Path("/sys"),
    version="550.54.15",
)


def triples(words: list[str], option: str) -> list[tuple[str, str]]:
    """The two values after each `option`."""
    return [(words[n + 1], words[n + 2]) for n, word in enumerate(words) if word == option]


def test_arguments_end_with_the_command() -> None:
    words = sandbox.arguments(PLAIN, ["python3", "--version"], 7)
    assert words[0] == "bwrap"
    assert words[-3:] == ["--", "python3", "--version"]
    assert words[1:-3] == sandbox.options(PLAIN, 7)


def test_every_namespace_is_new() -> None:
    words = sandbox.options(PLAIN, 7)
    for name in ("user", "pid", "ipc", "uts", "net", "cgroup-try"):
        assert f"--unshare-{name}" in words
    for name in ("--disable-userns", "--die-with-parent", "--new-session"):
        assert name in words
    assert words[words.index("--seccomp") + 1] == "7"


def test_the_network_is_shared_only_when_asked() -> None:
    alone, shared = (sandbox.options(replace(PLAIN, share_network=s), 7) for s in (False, True))
    assert [word for word in alone if word not in shared] == ["--unshare-net"]


def test_only_the_output_is_writable() -> None:
    words = sandbox.options(PLAIN, 7)
    assert triples(words, "--bind") == [("/o", places.OUTPUT)]
    assert ("/d", places.DATA) in triples(words, "--ro-bind")
    assert "--dev-bind" not in words


def test_only_the_closure_of_the_store_is_shown() -> None:
    shown = [s for s, _ in triples(sandbox.options(PLAIN, 7), "--ro-bind") if s.startswith("/nix")]
    assert shown == ["/nix/store/b-base", "/nix/store/c-wheel", "/nix/store/b-base"]


def test_the_root_becomes_read_only_after_the_last_mount() -> None:
    words = sandbox.options(PLAIN, 7)
    last = max(n for n, word in enumerate(words) if word in ("--bind", "--ro-bind", "--tmpfs"))
    assert words[last + 3 :][: 2 * len(sandbox.READ_ONLY)] == [
        word for path in sandbox.READ_ONLY for word in ("--remount-ro", path)
    ]
    assert sandbox.READ_ONLY[-3:] == ("/proc", "/dev", "/")


def test_environment_is_fixed_and_the_boxs_own() -> None:
    assert sandbox.environment(PLAIN) == {
        "HOME": "/run/harness/work",
        "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": "/run/harness/base/lib",
        "PATH": "/run/harness/environment/bin:/run/harness/base/bin:/bin",
        "TZ": "UTC",
        "SEED": "1",
    }


def test_gpus_bring_the_driver_folder_and_devices() -> None:
    with_gpus = replace(PLAIN, gpus=True)
    assert sandbox.environment(with_gpus)["LD_LIBRARY_PATH"].endswith(":/run/harness/driver")
    assert "--dev-bind" in sandbox.options(with_gpus, 7, DRIVER)
    assert "--dev-bind" not in sandbox.options(PLAIN, 7, DRIVER)
    with pytest.raises(Refused, match="driver files"):
        sandbox.options(with_gpus, 7)


def test_version_is_the_installed_bubblewraps(monkeypatch: pytest.MonkeyPatch) -> None:
    version = sandbox.version()
    assert version is not None
    assert version.count(".") == 2
    monkeypatch.setenv("PATH", "/nowhere")
    assert sandbox.version() is None


def test_without_bubblewrap_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Refused, match="bwrap.*not found"):
        sandbox.start(PLAIN, ["true"])


@pytest.mark.parametrize("source", ["relative", "/no/such/place"])
def test_a_source_that_is_not_there_is_refused(source: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no such absolute path"):
        sandbox.start(box(tmp_path, Mount(Path(source), places.DATA)), ["true"])


@pytest.mark.e2e
@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(5)", 5), ("os.abort()", 128 + 6)])
def test_exit_status_is_the_commands(base: Path, code: str, status: int) -> None:
    done = sandbox.run(box(base), [PYTHON, "-c", f"import os; {code}"])
    assert done.returncode == status


@pytest.mark.e2e
def test_input_and_both_outputs_are_the_commands(base: Path) -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('err', file=sys.stderr)"
    done = sandbox.run(box(base), [PYTHON, "-c", code], input=b"text")
    assert (done.stdout, done.stderr, done.returncode) == (b"TEXT\n", b"err\n", 0)


@pytest.mark.e2e
def test_the_same_facts_on_every_host(base: Path) -> None:
    code = """
    import getpass, socket
    found = [os.getuid(), os.getgid(), getpass.getuser(), socket.gethostname(), os.umask(0),
             os.getcwd(), sorted(os.listdir("/etc")), sorted(os.listdir("/")),
             socket.getaddrinfo("harness", None)[0][4][0], dict(os.environ)]
    """
    variables = sandbox.environment(box(base)) | {"PWD": "/"}
    assert inside(box(base), code) == [
        *(1000, 1000, "harness", "harness", 0o022, "/"),
        ["group", "hosts", "nsswitch.conf", "passwd"],
        sorted({"bin", "dev", "etc", "lib", "lib64", "proc", "run", "tmp", "usr", base.parts[1]}),
        *("127.0.0.1", variables),
    ]


@pytest.mark.e2e
def test_output_is_written_to_the_host(base: Path, tmp_path: Path) -> None:
    output = Mount(tmp_path, places.OUTPUT, writable=True)
    inside(box(base, output), f"found = open('{places.OUTPUT}/file', 'w').write('x')")
    assert (tmp_path / "file").read_text() == "x"
    assert (tmp_path / "file").stat().st_uid == os.getuid()


@pytest.mark.e2e
def test_worker_processes_share_memory_and_talk_over_loopback(base: Path) -> None:
    """What data loaders and gloo need: fork, spawn, /dev/shm, semaphores, TCP on 127.0.0.1."""
    code = """
    import multiprocessing as mp, socket, threading
    from multiprocessing.shared_memory import SharedMemory
    shared = SharedMemory(create=True, size=8)
    found = []
    for method in ("fork", "spawn"):
        with mp.get_context(method).Pool(2) as pool:
            found.append(pool.map(abs, [-1, -2]))
    def fill(name):
        mine = SharedMemory(name)
        mine.buf[0] = 7
        mine.close()
    child = mp.get_context("fork").Process(target=fill, args=(shared.name,))
    child.start(); child.join()
    found.append(shared.buf[0])
    shared.close(); shared.unlink()
    listener = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(listener.getsockname()) as client:
        listener.accept()[0].send(b"hello")
        found.append(client.recv(5).decode())
    """
    assert inside(box(base), code) == [[1, 2], [1, 2], 7, "hello"]


SAVING = r"""
import os, signal, sys, time
def save(number, frame):
    os.write(1, b"saved\n")
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.e2e
def test_interrupt_lets_the_command_save(base: Path) -> None:
    process = sandbox.start(box(base), [PYTHON, "-c", SAVING], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    sandbox.interrupt(process, signal.SIGTERM)
    assert process.stdout.read() == b"saved\n"
    assert process.wait() == 128 + signal.SIGTERM
    sandbox.interrupt(process, signal.SIGTERM)  # an ended one is left alone
    assert sandbox.command_pid(process) is None


@pytest.mark.e2e
def test_timeout_ends_the_sandbox(base: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        sandbox.run(box(base), ["/bin/sh", "-c", "while :; do :; done"], timeout=0.2)


@pytest.mark.e2e
def test_a_tool_that_never_ends_to_talk_is_ended(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "MOST_SAID", 1 << 20)
    for stream in ("1", "2"):
        with pytest.raises(Refused, match="said over 1 MiB in the sandbox"):
            sandbox.run(box(base), ["/bin/sh", "-c", f"while :; do echo endless; done >&{stream}"])


@pytest.mark.e2e
def test_an_input_that_nobody_reads_does_no_harm(base: Path) -> None:
    done = sandbox.run(box(base), ["/bin/sh", "-c", "exit 3"], input=b"x" * (4 << 20))
    assert done.returncode == 3


def until(condition: object) -> bool:
    """Wait up to ten seconds for a callable to answer true."""
    assert callable(condition)
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.e2e
def test_the_sandbox_dies_with_its_parent(base: Path, tmp_path: Path) -> None:
    code = f"""
    import sys, time
    sys.path[:0] = {[str(Path(sandbox.__file__).parents[1]), str(Path(__file__).parent)]!r}
    from pathlib import Path
    from harness import sandbox
    from sandbox_base import box, PYTHON
    process = sandbox.start(box(Path({str(base)!r})), [PYTHON, "-c", "import time; time.sleep(60)"])
    while not (pid := sandbox.command_pid(process)):
        time.sleep(0.01)
    print(pid, flush=True)
    time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    assert until(lambda: not Path(f"/proc/{pid}").exists())


AS_ANOTHER = """
import sys
from pathlib import Path
from harness import sandbox
base = Path(sys.argv[1])
closure = tuple(Path(p) for p in sys.argv[2:])
box = sandbox.Box(base, closure, (), {}, "/")
done = sandbox.run(box, [sandbox.BASE + "/bin/python3", "-c", "import os; print(os.getuid())"])
sys.stderr.buffer.write(done.stderr)
sys.stdout.buffer.write(done.stdout)
"""


ORDINARY = 65534 if os.getuid() == 0 else None  # root drops to nobody; others are ordinary already


def host_python(base: Path) -> list[str]:
    """The base's interpreter on the host, by the base's own loader and libraries."""
    record = json.loads((base / "base.json").read_text())
    loader, libraries = str(base / record["loader"]), str(base / record["libraries"])
    return [loader, "--library-path", libraries, str((base / "bin/python3").resolve())]


def another(base: Path, *before: str) -> str:
    """What a sandbox prints when an ordinary user's Python, the base's own, starts it."""
    closure = [str(path) for path in sandbox_base.closure(base)]
    with tempfile.TemporaryDirectory(prefix="harness-") as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(Path(sandbox.__file__).parent, Path(folder, "harness"))
        done = subprocess.run(
            [*before, *host_python(base), "-c", AS_ANOTHER, str(base), *closure],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": folder, "PYTHONHOME": str(base)},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            user=ORDINARY,
            group=ORDINARY,
            extra_groups=None if ORDINARY is None else [],
        )
    return done.stdout + done.stderr


@pytest.mark.e2e
def test_an_ordinary_user_can_start_one(base: Path) -> None:
    assert another(base) == "1000\n"


@pytest.mark.e2e
def test_it_works_inside_another_sandbox(base: Path) -> None:
    outer = ["bwrap", "--unshare-user", "--unshare-pid", "--dev-bind", "/", "/", "--proc", "/proc"]
    assert another(base, *outer, "--") == "1000\n"

"""Hostile code in a real sandbox: each attempt is a test, and docs/security.md lists them all."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sandbox_base import PYTHON, box, inside

from harness import places, sandbox, seccomp
from harness.errors import Refused
from harness.files import resolve_inside
from harness.sandbox import Mount

pytestmark = pytest.mark.e2e

OUTPUT = places.OUTPUT
DEVICES = ("full", "null", "random", "tty", "urandom", "zero")
NO_FILTER = seccomp.ALLOW.to_bytes(4, "little")


@contextlib.contextmanager
def listener(family: int, address: object) -> Iterator[socket.socket]:
    """A host's listening socket; that the host itself can connect to it is checked."""
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(address)  # type: ignore[arg-type]
        server.listen()
        with socket.socket(family, socket.SOCK_STREAM) as client:
            client.connect(server.getsockname())
        yield server


def connecting(family: str, address: object) -> str:
    """Code that tries to connect."""
    made = f"import socket; s = socket.socket(socket.{family})"
    return f"{made}; found = attempt(s.connect, {address!r})"


# Network.


def test_dns_resolves_nothing(base: Path) -> None:
    code = """
    import socket
    try:
        found = socket.getaddrinfo("example.org", 443)
    except socket.gaierror as error:
        found = error.errno == socket.EAI_AGAIN or error.errno == socket.EAI_NONAME
    """
    assert inside(box(base), code) is True


@pytest.mark.parametrize(
    ("family", "address"), [("AF_INET", ("192.0.2.1", 80)), ("AF_INET6", ("2001:db8::1", 80))]
)
def test_outside_addresses_are_unreachable(base: Path, family: str, address: object) -> None:
    assert inside(box(base), connecting(family, address)) == "ENETUNREACH"


def test_datagrams_leave_nowhere(base: Path) -> None:
    code = """
    import socket
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found = attempt(s.sendto, b"x", ("192.0.2.1", 53))
    """
    assert inside(box(base), code) == "ENETUNREACH"


def test_the_hosts_loopback_is_not_ours(base: Path) -> None:
    with listener(socket.AF_INET, ("127.0.0.1", 0)) as server:
        assert inside(box(base), connecting("AF_INET", server.getsockname())) == "ECONNREFUSED"


def test_only_a_loopback_device_is_there(base: Path) -> None:
    assert inside(box(base), "import socket; found = socket.if_nameindex()") == [[1, "lo"]]


def test_abstract_sockets_of_the_host_are_not_ours(base: Path) -> None:
    name = f"\0harness-test-{os.getpid()}"
    with listener(socket.AF_UNIX, name):
        assert inside(box(base), connecting("AF_UNIX", name)) == "ECONNREFUSED"


def test_path_sockets_of_the_host_are_not_there(base: Path, tmp_path: Path) -> None:
    name = str(tmp_path / "socket")
    with listener(socket.AF_UNIX, name):
        assert inside(box(base), connecting("AF_UNIX", name)) == "ENOENT"


@pytest.mark.parametrize(
    ("what", "family", "kind", "protocol", "error"),
    [
        ("vsock", 40, 1, 0, "EAFNOSUPPORT"),
        ("packet", 17, 3, 0, "EAFNOSUPPORT"),
        ("kernel crypto", 38, 5, 0, "EAFNOSUPPORT"),
        ("bluetooth", 31, 3, 0, "EAFNOSUPPORT"),
        ("can", 29, 3, 1, "EAFNOSUPPORT"),
        ("xdp", 44, 3, 0, "EAFNOSUPPORT"),
        ("netlink audit", 16, 3, 9, "EPROTONOSUPPORT"),
        ("netlink device events", 16, 3, 15, "EPROTONOSUPPORT"),
        ("netlink netfilter", 16, 3, 12, "EPROTONOSUPPORT"),
        ("multipath tcp", 2, 1, 262, "EPROTONOSUPPORT"),
        ("raw ip", 2, 3, 1, "EPROTONOSUPPORT"),
        ("raw ip of no protocol", 2, 3, 6, "EPERM"),
        ("old packet interface", 2, 10, 0, "EPERM"),
        ("tcp", 2, 1, 0, "done"),
        ("netlink routes", 16, 3, 0, "done"),
    ],
)
def test_socket_families(
    base: Path, what: str, family: int, kind: int, protocol: int, error: str
) -> None:
    code = f"import socket; found = attempt(socket.socket, {family}, {kind}, {protocol})"
    assert inside(box(base), code) == error, what


# The host's environment, files and processes.


def test_the_hosts_environment_is_unknown(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_TEST_SECRET", "s3cret")
    code = """
    import glob
    found = {path: open(path, "rb").read().decode() for path in glob.glob("/proc/[0-9]*/environ")}
    """
    found = inside(box(base), code)
    assert found["/proc/1/environ"] == ""
    assert len(found) == 2
    assert not any("SECRET" in text for text in found.values())


def test_no_host_path_in_process_1s_command_line(base: Path, tmp_path: Path) -> None:
    hidden = box(base, Mount(tmp_path, OUTPUT, writable=True))
    found = inside(hidden, "found = open('/proc/1/cmdline').read()")
    assert str(tmp_path) not in found
    assert str(base) not in found


def test_home_is_empty(base: Path) -> None:
    code = """
    found = [os.environ["HOME"], os.listdir(os.environ["HOME"]), attempt(os.listdir, "/root"),
             attempt(os.listdir, "/home")]
    """
    assert inside(box(base), code) == [places.WORK, [], "ENOENT", "ENOENT"]


def test_no_descriptor_is_inherited(base: Path, tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(folder, True)
    code = """
    import glob
    found = {}
    for process in (1, "self"):
        for path in glob.glob(f"/proc/{process}/fd/*"):
            try:
                found[path] = os.readlink(path)
            except FileNotFoundError:
                pass  # the descriptor that glob itself had
    """
    try:
        found = inside(box(base), code)
    finally:
        os.close(folder)
    assert {path.rpartition("/")[2] for path in found if "self" in path} == {"0", "1", "2"}
    assert all(link.startswith(("pipe:", "anon_inode:[eventfd]")) for link in found.values())


def test_only_its_own_processes_are_there(base: Path) -> None:
    code = "found = sorted(int(name) for name in os.listdir('/proc') if name.isdecimal())"
    assert inside(box(base), code) == [1, 2]


def test_all_namespaces_are_its_own(base: Path) -> None:
    names = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]
    host = {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in names}
    code = f"found = {{name: os.readlink(f'/proc/self/ns/{{name}}') for name in {names!r}}}"
    found = inside(box(base), code)
    assert [name for name in names if found[name] == host[name]] == []


def test_of_the_store_only_the_closure_is_there(base: Path, tmp_path: Path) -> None:
    store = [tmp_path / name for name in ("a", "b", "other")]
    for path in store:
        path.mkdir()
    some = box(base)
    some = replace(some, closure=(*some.closure, *store[:2]))
    listing = f"found = sorted(os.listdir({str(tmp_path)!r}))"
    assert inside(some, listing) == ["a", "b"]


# Writing.


def test_nothing_outside_the_output_can_be_written(base: Path, tmp_path: Path) -> None:
    for name in ("data", "output"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    data = Mount(tmp_path / "data", places.DATA)
    output = Mount(tmp_path / "output", OUTPUT, writable=True)
    # Every folder there is, pseudo file systems and scratch space aside.
    code = f"""
    found = {{}}
    for folder, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in
                      ("/proc", "/dev/pts", "/dev/shm", "/tmp", {places.WORK!r})]
        answer = attempt(open, os.path.join(folder, "new"), "w")
        found.setdefault(answer, []).append(folder)
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                answer = attempt(os.chmod, path, os.stat(path).st_mode & 0o777)
                found.setdefault(answer, []).append(path)
    """
    found = inside(box(base, data, output), code)
    # A root's sandbox may change the modes of device files, which are root's: docs/security.md.
    devices = [f"/dev/{name}" for name in DEVICES] if os.getuid() == 0 else []
    assert sorted(found.pop("done")) == sorted([OUTPUT, f"{OUTPUT}/file", *devices])
    assert set(found) <= {"EROFS", "EPERM", "EACCES", "ENOENT"}
    assert f"{places.DATA}/file" in found["EROFS"]


def test_kernel_settings_cannot_be_written(base: Path) -> None:
    code = """
    files = ["sys/kernel/hostname", "sys/vm/overcommit_memory", "sys/user/max_user_namespaces",
             "sys/kernel/core_pattern", "sysrq-trigger", "self/oom_score_adj", "self/uid_map"]
    paths = [f"/proc/{name}" for name in files if os.path.exists(f"/proc/{name}")]
    found = [attempt(open, path, "w") for path in paths]
    """
    answers = inside(box(base), code)
    assert len(answers) >= 6
    assert set(answers) == {"EROFS"}


def test_the_sandboxs_own_program_cannot_be_overwritten(base: Path) -> None:
    """/proc/1/exe is bubblewrap on the host: a way out if it could be written."""
    assert inside(box(base), "found = attempt(open, '/proc/1/exe', 'r+b')") in ("ETXTBSY", "EACCES")


def test_only_harmless_devices_are_there(base: Path) -> None:
    code = """
    import stat
    found = [sorted(os.listdir("/dev")),
             attempt(os.mknod, "/tmp/disk", stat.S_IFBLK | 0o600, os.makedev(8, 0)),
             attempt(os.mknod, "/tmp/memory", stat.S_IFCHR | 0o600, os.makedev(1, 1))]
    """
    links = ["core", "fd", "ptmx", "stderr", "stdin", "stdout"]
    names = sorted([*links, *DEVICES, "pts", "shm"])
    assert inside(box(base), code) == [names, "EPERM", "EPERM"]


def test_links_lead_nowhere_out_of_the_output(base: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    for name in ("output", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/file").touch()
    output = Mount(tmp_path / "output", OUTPUT, writable=True)
    code = f"""
    os.symlink({str(secret)!r}, "{OUTPUT}/link")
    link = attempt(os.link, "{places.DATA}/file", "{OUTPUT}/hard")
    found = [attempt(open, "{OUTPUT}/link"), link]
    """
    found = inside(box(base, output, Mount(tmp_path / "data", places.DATA)), code)
    assert found == ["ENOENT", "EXDEV"]
    # The harness, which reads the output afterwards on the host, follows no link either.
    with pytest.raises(Refused, match="symbolic link"):
        resolve_inside(tmp_path / "output", Path("link"))


def test_no_setuid_file_can_be_left_in_the_output(base: Path, tmp_path: Path) -> None:
    code = f"""
    path = "{OUTPUT}/file"
    open(path, "w").close()
    found = [attempt(os.chmod, path, 0o4755), attempt(os.chmod, path, 0o2755),
             attempt(os.open, "{OUTPUT}/new", os.O_CREAT | os.O_WRONLY, 0o4755),
             attempt(os.chmod, path, 0o755)]
    """
    output = Mount(tmp_path, OUTPUT, writable=True)
    assert inside(box(base, output), code) == ["EPERM", "EPERM", "EPERM", "done"]
    assert (tmp_path / "file").stat().st_mode & 0o7777 == 0o755
    assert not (tmp_path / "new").exists()


# Privileges.


def test_no_capability_is_held(base: Path) -> None:
    code = """
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    held = [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")]
    found = [held, status["NoNewPrivs"].strip(), status["Seccomp"].strip(), attempt(os.setuid, 0)]
    """
    assert inside(box(base), code) == [[0] * 4, "1", "2", "EINVAL"]


@pytest.mark.parametrize("flag", [0x00020000, 0x02000000, 0x10000000, 0x20000000, 0x40000000])
def test_no_new_namespace(base: Path, flag: int) -> None:
    clone = f"system_call('syscall', 56, {flag | 17}, 0, 0, 0, 0)"
    code = f"found = [system_call('unshare', {flag}), {clone}]"
    assert inside(box(base), code) == ["EPERM", "EPERM"]


def test_no_new_user_namespace_even_without_the_filter(base: Path) -> None:
    """The second line of defence: the kernel's own limit, set by --disable-userns."""
    code = "import ctypes; l = ctypes.CDLL(None, use_errno=True)"
    code += "; print(l.unshare(0x10000000), ctypes.get_errno())"
    read, write = os.pipe()
    with os.fdopen(write, "wb") as file:
        file.write(b"\x06\0\0\0" + NO_FILTER)
    command = sandbox.arguments(box(base), [PYTHON, "-c", code], read)
    done = subprocess.run(
        command,
        pass_fds=(read,),
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        check=False,
    )
    os.close(read)
    assert done.stdout == b"-1 28\n", done.stderr  # ENOSPC


@pytest.mark.parametrize(
    "call",
    [
        "'mount', b'none', b'/tmp', b'tmpfs', 0, None",
        "'umount2', b'/tmp', 2",
        "'pivot_root', b'/tmp', b'/tmp'",
        "'chroot', b'/tmp'",
        "'setns', 0, 0",
        "'ptrace', 0, 0, 0, 0",
        "'process_vm_readv', 1, None, 0, None, 0, 0",
        "'personality', 0x0400000",
        "'fanotify_init', 0, 0",
        "'name_to_handle_at', -100, b'/', None, None, 0",
        "'sethostname', b'x', 1",
        "'reboot', 0",
        "'ioctl', 0, 0x5412, b'x'",
        "'ioctl', 0, 0x541C, b'x'",
        "'syscall', 250, 0, -1, 0",
        "'syscall', 248, b'user', b'name', b'x', 1, -3",
        "'syscall', 249, b'user', b'name', 0, 0",
        "'syscall', 321, 0, 0, 0",
        "'syscall', 298, 0, 0, 0, 0, 0",
        "'syscall', 323, 1",
    ],
)
def test_refused_calls(base: Path, call: str) -> None:
    code = f"""
    found = system_call({call})
    """
    assert inside(box(base), code) == "EPERM"


@pytest.mark.parametrize("number", [425, 426, 427, 435, 437, 447, 470, 511])
def test_calls_that_look_unimplemented(base: Path, number: int) -> None:
    assert inside(box(base), f"found = system_call('syscall', {number}, 0, 0, 0)") == "ENOSYS"


def test_input_cannot_be_typed_into_a_terminal(base: Path) -> None:
    """TIOCSTI, and changing the line discipline, on a terminal of one's own."""
    code = """
    import fcntl, pty
    master, terminal = os.openpty()
    found = [attempt(fcntl.ioctl, terminal, 0x5412, b"x"),
             attempt(fcntl.ioctl, terminal, 0x5423, b"\\0\\0\\0\\0"),
             attempt(fcntl.ioctl, terminal, 0x5413, b"\\0" * 8)]
    """
    assert inside(box(base), code) == ["EPERM", "EPERM", "done"]


def test_it_has_no_controlling_terminal(base: Path) -> None:
    assert inside(box(base), "found = attempt(open, '/dev/tty', 'r+b')") == "ENXIO"


def test_other_processes_cannot_be_signalled(base: Path) -> None:
    """Host process numbers mean nothing inside."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        found = inside(box(base), f"found = attempt(os.kill, {victim.pid}, 9)")
        alive = victim.poll() is None
        victim.communicate(b"\n")
    assert (found, alive) == ("ESRCH", True)

"""A base to sandbox tests in: the one HARNESS_BASE names, else a copy of this interpreter's."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path
from typing import Any

from harness import sandbox
from harness.sandbox import BASE, Box, Mount

PYTHON = f"{BASE}/bin/python3"


def closure(base: Path) -> tuple[Path, ...]:
    """The store paths `base` needs, itself included; only itself outside the Nix store."""
    if not base.is_relative_to("/nix/store"):
        return (base,)
    query = ["nix-store", "--query", "--requisites", str(base)]
    lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()
    return tuple(Path(line) for line in lines)


def build(folder: Path) -> Path:
    """The base for this test session; a stand-in is made in `folder`, readable by everybody."""
    if named := os.environ.get("HARNESS_BASE"):
        return Path(named).resolve()
    base = folder / "base"
    (base / "bin").mkdir(parents=True)
    (base / "lib").mkdir()
    stdlib = Path(sysconfig.get_path("stdlib"))
    ignored = shutil.ignore_patterns("site-packages", "test", "tests", "__pycache__", "config-*")
    shutil.copytree(stdlib, base / "lib" / stdlib.name, ignore=ignored)
    python = Path(sys.executable).resolve()
    shutil.copy(python, base / "bin" / stdlib.name)
    (base / "bin" / "python3").symlink_to(stdlib.name)
    shutil.copy(Path("/bin/sh").resolve(), base / "bin" / "sh")
    modules = sorted((base / "lib" / stdlib.name / "lib-dynload").glob("*.so"))
    for library in _libraries([python, base / "bin" / "sh", *modules]):
        shutil.copy(library.resolve(), base / "lib" / library.name)
    (base / "lib" / f"{platform.machine()}-linux-gnu").symlink_to(".")
    about = {
        "schema_version": 1,
        "kind": "captured",
        "python": platform.python_version(),
        "system": f"{platform.machine()}-linux",
        "glibc": platform.libc_ver()[1],
        "loader": next(f"lib/{path.name}" for path in (base / "lib").glob("ld-linux*")),
        "libraries": "lib",
    }
    (base / "base.json").write_text(json.dumps(about))
    for path in (base, folder):
        path.chmod(0o755)
    return base


def box(base: Path, *mounts: Mount, share_network: bool = False) -> Box:
    """A box on `base` with `mounts` and nothing else."""
    return Box(base, closure(base), mounts, {}, "/", share_network=share_network)


def environment(base: Path, folder: Path) -> Path:
    """A bare environment made in `folder`: `base`'s interpreter, and numpy to read tensors with."""
    import numpy

    packages = folder / "lib/python3.11/site-packages"
    for name in ("numpy", "numpy.libs"):
        shutil.copytree(Path(numpy.__file__).parents[1] / name, packages / name)
    # The stand-in base may lack libraries that numpy loads; a real one does not.
    for library in _libraries([*folder.rglob("*.so*")]):
        if not (base / "lib" / library.name).exists() and not library.is_relative_to(folder):
            shutil.copy(library, packages / "numpy.libs")
    (folder / "bin").mkdir()
    (folder / "bin/python3").symlink_to(f"{sandbox.BASE}/bin/python3")
    (folder / "pyvenv.cfg").write_text(f"home = {sandbox.BASE}/bin\n")
    return folder


def inside(box: Box, code: str) -> Any:
    """Run `code` in `box` and return what it leaves in `found` (a JSON value).

    The code has `os`, and `attempt(function, *arguments)`: "done", or the error's name.
    """
    program = f"{_PRELUDE}\n{textwrap.dedent(code)}\nprint(json.dumps(found))"
    done = sandbox.run(box, [PYTHON, "-c", program], timeout=300)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return json.loads(done.stdout)


_PRELUDE = """
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "done"
def system_call(name, *arguments):
    ctypes.set_errno(0)
    done = libc[name](*arguments) != -1
    return "done" if done else errno.errorcode[ctypes.get_errno()]
"""


def _libraries(programs: list[Path]) -> list[Path]:
    """Every shared library `programs` load, the loader included, as ldd lists them: one a name."""
    text = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = {Path(path).name: Path(path) for path in re.findall(r"(/\S+) \(0x", text)}
    return list(found.values())

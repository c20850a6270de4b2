"""A base to sandbox tests in: the one HARNESS_BASE names, else a copy of this interpreter's."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

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
    about = {"schema_version": 1, "kind": "captured", "python": platform.python_version()}
    (base / "base.json").write_text(json.dumps(about | {"libraries": "lib"}))
    for path in (base, *base.parents[:2]):
        path.chmod(0o755)
    return base


def box(base: Path, *mounts: Mount, share_network: bool = False) -> Box:
    """A box on `base` with `mounts` and nothing else."""
    return Box(base, closure(base), mounts, {}, "/", share_network=share_network)


def _libraries(programs: list[Path]) -> set[Path]:
    """Every shared library `programs` load, the loader included, as ldd lists them."""
    text = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", text)}

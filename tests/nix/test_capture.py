"""The captured base: the same bytes each time, none of the host's folders, and it runs alone."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest

from harness.nar import nar_sha256
from harness.nix import host_python

CAPTURE = Path(__file__).parents[2] / "nix/capture.py"

pytestmark = pytest.mark.e2e


def interpreters() -> list[str]:
    """The user's CPython and the distribution's, where both are there and differ."""
    distribution = Path("/usr/bin/python3.11")
    found = [host_python().resolve()]
    if distribution.exists() and distribution.resolve() not in found:
        found.append(distribution)
    return [str(path) for path in found]


def capture(python: str, folder: Path) -> Path:
    subprocess.run([python, "-I", "-B", str(CAPTURE), str(folder)], check=True)
    return folder


def run(base: Path, code: str) -> str:
    record = json.loads((base / "base.json").read_text())
    loader = [str(base / record["loader"]), "--library-path", str(base / record["libraries"])]
    command = [*loader, str(base / "bin/python3.11"), "-I", "-B", "-c", code]
    return subprocess.run(command, env={}, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module", params=interpreters())
def python(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def base(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return capture(python, tmp_path_factory.mktemp("capture") / "base")


def test_two_captures_are_the_same_bytes(python: str, base: Path, tmp_path: Path) -> None:
    assert nar_sha256(capture(python, tmp_path / "elsewhere" / "two")) == nar_sha256(base)


def test_it_runs_in_an_empty_environment(base: Path) -> None:
    modules = "bz2, ctypes, curses, hashlib, lzma, multiprocessing, readline, sqlite3, ssl, zlib"
    printed = run(base, f"import sys, {modules}; print(sys.prefix, *sys.path, sep='\\n')")
    assert all(Path(line).is_relative_to(base) for line in printed.split())
    shell = subprocess.run(
        [str(next(base.glob("lib/ld-linux-*"))), str(base / "bin/sh"), "-c", "echo alive"],
        env={},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shell.stdout == "alive\n"


def test_it_says_what_it_is(base: Path) -> None:
    record = json.loads((base / "base.json").read_text())
    assert record["kind"] == "captured"
    facts = "platform.python_version(), platform.libc_ver()[1], platform.machine() + '-linux'"
    printed = run(base, f"import platform; print({facts})").split()
    assert printed == [record["python"], record["glibc"], record["system"]]


def test_it_holds_nothing_of_the_host_but_the_interpreter(python: str, base: Path) -> None:
    names = {path.name for path in base.rglob("*")}
    assert not names & {"dist-packages", "site-packages", "sitecustomize.py", "idlelib", "test"}
    command = [python, "-I", "-c", "import sys; print(sys.base_prefix)"]
    prefix = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if prefix != "/usr":  # which every host has
        files = (path for path in base.rglob("*") if path.is_file())
        assert [path for path in files if prefix.encode() in path.read_bytes()] == []


def test_its_build_variables_hold_no_path_outside_it(base: Path) -> None:
    for module in base.glob("lib/python3.11/_sysconfigdata*.py"):
        values = module.read_text().replace("/run/harness/base", "")
        assert re.search(r"[\s'=]/\w", values) is None


def test_every_module_is_compiled_and_its_source_never_checked(base: Path) -> None:
    for source in base.glob("lib/python3.11/**/*.py"):
        cache = source.parent / "__pycache__" / f"{source.stem}.cpython-311.pyc"
        # PEP 552: bit 0, checked by a hash; bit 1 not set, never at run time.
        assert int.from_bytes(cache.read_bytes()[4:8], "little") == 1


def test_a_host_without_ldconfig_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("capture", CAPTURE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.shutil, "which", lambda *args, **kwargs: None)
    with pytest.raises(SystemExit, match="capture: no ldconfig .*install libc-bin"):
        module.host_cache()

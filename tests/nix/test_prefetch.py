"""Prefetching: a locked file's store path, and a file that pip does not find."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from test_lock import wheel

from harness.files import sha256_file
from harness.nix import host_python

PREFETCH = Path(__file__).parents[2] / "nix/prefetch.py"

pytestmark = pytest.mark.e2e


def prefetch(lock: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    settings = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", **variables}
    return subprocess.run(
        [str(host_python()), "-I", "-B", str(PREFETCH), str(lock)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def lock_of(folder: Path, file: Path, sha256: str | None = None) -> Path:
    name, version = file.name.split("-")[:2]
    entry = {"name": name, "version": version, "file": file.name, "kind": "wheel"}
    lock = folder / "one.json"
    lock.write_text(json.dumps({"wheels": [{**entry, "sha256": sha256 or sha256_file(file)}]}))
    return lock


def path_of(file: Path) -> Path:
    """Where Nix itself says that the file goes."""
    command = ["nix-store", "--print-fixed-path", "sha256", sha256_file(file), file.name]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Path(printed.strip())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A wheel nobody has seen: its name holds the test's own folder."""
    (tmp_path / "index").mkdir()
    unique = "t" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]
    return wheel(tmp_path / "index", unique, "1.0+local")


def test_a_found_file_lies_where_nix_looks_for_it(tmp_path: Path, file: Path) -> None:
    done = prefetch(lock_of(tmp_path, file), PIP_FIND_LINKS=str(file.parent))
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("fetch 1/1 ")
    assert path_of(file).read_bytes() == file.read_bytes()


def test_a_file_that_is_there_is_not_fetched_again(tmp_path: Path, file: Path) -> None:
    lock = lock_of(tmp_path, file)
    assert prefetch(lock, PIP_FIND_LINKS=str(file.parent)).returncode == 0
    file.unlink()
    again = prefetch(lock)
    assert (again.returncode, again.stderr) == (0, "")


def test_a_file_pip_cannot_find_is_one_line_that_names_it(tmp_path: Path, file: Path) -> None:
    done = prefetch(lock_of(tmp_path, file))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert file.name.split("-")[0] in line
    assert "PIP_FIND_LINKS" in line


def test_a_file_with_other_bytes_is_refused(tmp_path: Path, file: Path) -> None:
    done = prefetch(lock_of(tmp_path, file, "0" * 64), PIP_FIND_LINKS=str(file.parent))
    assert done.returncode == 1
    assert not path_of(file).exists()
    assert "HASH" in done.stderr.upper()

"""Remembered digests: believed while a file is untouched, and only then."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.data import digests as module
from harness.data.digests import Digests
from harness.errors import Refused


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as settled at once."""
    monkeypatch.setattr(module, "_SETTLED", -1_000_000_000)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Which files were read."""
    seen: list[Path] = []
    real = module.sha256_file
    monkeypatch.setattr(module, "sha256_file", lambda path: seen.append(path) or real(path))
    return seen


def write(folder: Path, count: int = 5) -> list[Path]:
    paths = [folder / f"f{number}" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(b"%d" % number * 1000)
    return paths


@pytest.mark.usefixtures("settled")
def test_a_second_look_reads_nothing(tmp_path: Path, hashed: list[Path]) -> None:
    paths, store = write(tmp_path), tmp_path / "store.json"
    first = Digests(store).of(paths)
    assert first == {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}
    hashed.clear()
    assert Digests(store).of(paths) == first
    assert hashed == []


@pytest.mark.usefixtures("settled")
def test_full_reads_all(tmp_path: Path, hashed: list[Path]) -> None:
    paths, store = write(tmp_path), tmp_path / "store.json"
    Digests(store).of(paths)
    hashed.clear()
    Digests(store, full=True).of(paths)
    assert sorted(hashed) == paths


def _rewrite(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"x" * path.stat().st_size)
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.rename(path)


def _rewrite_and_set_back(path: Path) -> None:
    status = path.stat()
    path.write_bytes(b"x" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("change", [_rewrite, _replace, _rewrite_and_set_back])
def test_any_change_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    paths, store = write(tmp_path), tmp_path / "store.json"
    before = Digests(store).of(paths)
    time.sleep(0.02)
    change(paths[2])
    after = Digests(store).of(paths)
    assert [path for path in paths if before[path] != after[path]] == [paths[2]]


def test_a_file_just_written_is_not_remembered(tmp_path: Path, hashed: list[Path]) -> None:
    paths, store = write(tmp_path), tmp_path / "store.json"
    Digests(store).of(paths)
    hashed.clear()
    Digests(store).of(paths)
    assert sorted(hashed) == paths


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": {}}'])
def test_a_spoilt_store_counts_as_nothing(tmp_path: Path, text: str) -> None:
    paths, store = write(tmp_path), tmp_path / "store.json"
    store.write_text(text)
    assert len(Digests(store).of(paths)) == len(paths)


def test_links_and_absent_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(write(tmp_path)[0])
    for name in ("link", "absent"):
        with pytest.raises(Refused, match=name):
            Digests(tmp_path / "store.json").of([tmp_path / name])


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, 1)[0]
    real = module.sha256_file

    def racing(path: Path) -> str:
        result = real(path)
        path.write_bytes(b"longer than before" * 100)
        return result

    monkeypatch.setattr(module, "sha256_file", racing)
    with pytest.raises(Refused, match="changed while it was read"):
        Digests(tmp_path / "store.json").of([path])


@pytest.mark.usefixtures("settled")
def test_processes_remember_at_once_without_losing_anything(tmp_path: Path) -> None:
    files = write(tmp_path, 8)
    store = tmp_path / "store" / "digests.json"
    children = []
    for file in files:
        if (child := os.fork()) == 0:
            try:
                for _ in range(5):
                    found = Digests(store)
                    found._known = {}  # as one that began before the others
                    found.of([file])
                os._exit(0)
            except BaseException:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(files)
    assert len(json.loads(store.read_text())) == len(files)


def test_what_cannot_be_remembered_is_still_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(target: Path, value: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.data.digests.publish_json", full)
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    assert Digests(tmp_path / "digests.json").of([file])[file].startswith("ba7816bf")


@pytest.mark.usefixtures("settled")
def test_how_far_it_is_is_told_in_mib(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(3 << 20))
    (tmp_path / "small").write_bytes(b"1")
    told: list[tuple[str, int, int]] = []
    Digests(tmp_path / "store").of(
        [tmp_path / "small", tmp_path / "large"], lambda *step: told.append(step)
    )
    assert told == [("MiB hashed", 3, 4), ("MiB hashed", 4, 4)]

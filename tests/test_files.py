"""Publishing is all or nothing, reading trusts nothing."""

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import files
from harness.errors import Refused
from harness.json_files import read_json


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the program runs on, not even its clean-up."""


STEPS = ("write", "fsync", "rename", "sync_folder")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_at_any_step_leaves_old_or_new_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    target = tmp_path / "record.json"
    files.publish_bytes(target, b"old")
    fail_at(monkeypatch, step, error)
    with pytest.raises(type(error)):
        files.publish_bytes(target, b"new")
    monkeypatch.undo()
    found = target.read_bytes()
    assert found in (b"old", b"new")
    assert found == b"old" or step == "sync_folder"
    files.publish_bytes(target, b"next")
    assert target.read_bytes() == b"next"
    assert list(tmp_path.iterdir()) == [target]


def fail_at(monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    if step == "write":
        opened: Callable[..., object] = os.fdopen

        def failing(descriptor: int, *args: object, **kwargs: object) -> object:
            file = opened(descriptor, *args, **kwargs)
            return _Failing(file, error) if args and args[0] == "wb" else file

        monkeypatch.setattr(os, "fdopen", failing)
    elif step == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    elif step == "rename":
        monkeypatch.setattr(Path, "rename", fail)
    else:
        monkeypatch.setattr(files, "sync_folder", fail)


class _Failing:
    """A file that takes half of what it is given, then fails."""

    def __init__(self, file: object, error: BaseException) -> None:
        self.file, self.error = file, error

    def __enter__(self) -> "_Failing":
        return self

    def __exit__(self, *args: object) -> None:
        self.file.close()  # type: ignore[attr-defined]

    def write(self, data: bytes) -> None:
        self.file.write(data[: len(data) // 2])  # type: ignore[attr-defined]
        raise self.error


def test_a_held_folder_stays_the_same_whatever_takes_its_name(tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    for made in (folder, other):
        made.mkdir()
    with files.held(folder) as place:
        folder.rename(tmp_path / "moved")
        folder.symlink_to(other)
        files.publish_bytes(place / "file", b"x")
        (place / "file").rename(place / "again")
    assert (tmp_path / "moved" / "again").read_bytes() == b"x"
    assert list(other.iterdir()) == []
    with pytest.raises(OSError, match="Not a directory"), files.held(folder):
        pass


def test_a_part_left_by_a_killed_writer_is_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "record.json"
    files.part_of(target).write_bytes(b"half")
    files.publish_bytes(target, b"whole")
    assert target.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "pipe"])
def test_what_is_no_plain_file_is_neither_read_nor_replaced(tmp_path: Path, kind: str) -> None:
    target, other = tmp_path / "target", tmp_path / "other"
    other.write_text("1")
    {
        "link": lambda: target.symlink_to(other),
        "dangling": lambda: target.symlink_to(tmp_path / "nowhere"),
        "folder": lambda: target.mkdir(),
        "pipe": lambda: os.mkfifo(target),
    }[kind]()
    with pytest.raises(Refused):
        files.publish_bytes(target, b"2")
    for read in (files.sha256_file, read_json, files.open_log):
        with pytest.raises(Refused):
            read(target)
    assert other.read_text() == "1"


def test_a_full_disk_is_told_with_the_files_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(monkeypatch, "fsync", OSError(28, "No space left on device"))
    with pytest.raises(OSError, match="record.json"):
        files.publish_bytes(tmp_path / "record.json", b"1")


@given(data=st.binary(max_size=5000))
def test_a_published_copy_has_the_digest_and_its_own_inode(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    source, target = folder / "source", folder / "target"
    source.write_bytes(data)
    assert files.publish_file(source, target) == hashlib.sha256(data).hexdigest()
    assert target.read_bytes() == data
    assert target.stat().st_ino != source.stat().st_ino
    assert files.sha256_file(target) == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a/link/x", "a/link"])
def test_a_path_out_of_the_root_or_through_a_link_is_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "link").symlink_to(tmp_path)
    with pytest.raises(Refused):
        files.resolve_inside(root, Path(path))


def test_a_path_inside_the_root_is_taken_absolute_or_relative(tmp_path: Path) -> None:
    expected = tmp_path.resolve() / "a" / "b"
    assert files.resolve_inside(tmp_path, Path("a/b")) == expected
    assert files.resolve_inside(tmp_path, expected) == expected


def test_a_log_is_private_and_appended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for line in (b"one\n", b"two\n"):
        with files.open_log(log) as file:
            file.write(line)
    assert log.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.timeout(60)
def test_holes_without_end_are_not_hashed(tmp_path: Path) -> None:
    path = sparse(tmp_path / "holes", 1 << 42)
    for read in (files.sha256_file, files.open_filled):
        with pytest.raises(Refused, match=r"holes: is made of holes, \d+ bytes of them"):
            read(path)


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_many_small_holes_are_one_large_one(tmp_path: Path) -> None:
    status = sparse(tmp_path / "holes", 1 << 20).stat()
    assert files.mostly_holes(status)
    assert not files.hollow(status)
    assert not files.hollow(status, files.MAX_HOLES - (1 << 20))
    assert files.hollow(status, files.MAX_HOLES)
    (tmp_path / "full").write_bytes(b"x" * 4096)
    assert not files.hollow((tmp_path / "full").stat(), 1 << 50)


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="cannot be opened as a plain file"):
        files.sha256_file(tmp_path / name)

"""All that can be done to a run folder behind its back; each must be told by name."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

Touch = Callable[[Path, Path], object]


def files(run: Path) -> list[Path]:
    """Every file of a run folder, relative to it."""
    return sorted(path.relative_to(run) for path in run.rglob("*") if path.is_file())


def folders(run: Path) -> list[Path]:
    """Every folder in a run folder, relative to it."""
    return sorted(path.relative_to(run) for path in run.rglob("*") if path.is_dir())


def flip(path: Path, at: int, mask: int = 1) -> None:
    """Change bits of one byte, and let the file have its old time."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ mask]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _replaced(path: Path, other: Path) -> None:
    """A link in the file's or folder's place that leads to all it was."""
    shutil.move(path, other)
    path.symlink_to(other)


# What is done to a file; the second path is a free place outside of the run.
TO_A_FILE: dict[str, Touch] = {
    "missing": lambda path, _: path.unlink(),
    "truncated": lambda path, _: os.truncate(path, max(0, path.stat().st_size - 1)),
    "emptied": lambda path, _: os.truncate(path, 0),
    "longer": lambda path, _: path.write_bytes(path.read_bytes() + b"\n"),
    "linked": _replaced,
    "linked nowhere": lambda path, _: (path.unlink(), path.symlink_to("/nowhere")),
    "hard linked": lambda path, other: other.hardlink_to(path),
    "a folder": lambda path, _: (path.unlink(), path.mkdir()),
    "a pipe": lambda path, _: (path.unlink(), os.mkfifo(path)),
    "renamed": lambda path, _: path.rename(path.with_name(f"{path.name}x")),
    "later than now": lambda path, _: os.utime(path, (2**33, 2**33)),
    "later than any date": lambda path, _: os.utime(path, (2**37, 2**37)),
}
TO_A_FOLDER: dict[str, Touch] = {
    "missing": lambda path, _: shutil.rmtree(path),
    "linked": _replaced,
    "a file": lambda path, _: (shutil.rmtree(path), path.write_bytes(b"")),
    "renamed": lambda path, _: path.rename(path.with_name(f"{path.name}x")),
    "later than now": lambda path, _: os.utime(path, (2**33, 2**33)),
}
# What is put into a folder: what to do at a path that is free, and outside of the run.
ADDED: dict[str, Touch] = {
    "an empty file": lambda path, _: path.touch(),
    "a hidden file": lambda path, _: path.touch(),
    "an empty folder": lambda path, _: path.mkdir(),
    "a folder in a folder": lambda path, _: (path / "x").mkdir(parents=True),
    "a link": lambda path, _: path.symlink_to("/etc/passwd"),
    "a link to a folder": lambda path, _: path.symlink_to("/etc"),
    "a pipe": lambda path, _: os.mkfifo(path),
}


def all_of(run: Path) -> Iterator[tuple[str, Path, Callable[[Path, Path], object]]]:
    """Each change that can be made to a copy of `run`: its name, what it touches, how it is made.

    A call gets the copy's folder, and a free place outside of it.
    """
    for name in files(run):
        for touch, how in TO_A_FILE.items():
            if touch in ("truncated", "emptied") and not (run / name).stat().st_size:
                continue
            yield touch, name, lambda copy, other, how=how, name=name: how(copy / name, other)
    for name in folders(run):
        for touch, how in TO_A_FOLDER.items():
            yield touch, name, lambda copy, other, how=how, name=name: how(copy / name, other)
    for name in (Path(), *folders(run)):
        for touch, how in ADDED.items():
            at = name / (".added" if "hidden" in touch else "added")
            yield touch, at, lambda copy, other, how=how, at=at: how(copy / at, other)


def restore(run: Path, copy: Path, name: Path, other: Path) -> None:
    """Undo a change of `all_of` that touched `name` in a copy of `run`."""
    at = copy / name
    for path in (at, at.with_name(f"{at.name}x"), other):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if (run / name).is_dir():
        shutil.copytree(run / name, at)
    elif (run / name).exists():
        shutil.copy2(run / name, at)

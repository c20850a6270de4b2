"""Folders that somebody else filled: walked and removed without a link followed, however deep.

Python's own walk and removal call themselves for each level, and end where its stack does.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def folders(root: Path, closed: frozenset[str] = frozenset()) -> Iterator[Path]:
    """`root` and all folders below it, each before those in it.

    It does not look into those below that are named in `closed`, nor where it cannot.
    """
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        yield folder
        if folder == root or folder.name not in closed:
            with suppress(OSError), os.scandir(folder) as entries:
                waiting += [Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)]


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A new folder that is removed with all that a sandbox left in it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        remove(folder)


def remove(folder: Path) -> None:
    """Remove `folder` with all in it, if it is there. Raises OSError where it is no folder."""
    try:
        top = os.open(folder, os.O_RDONLY | _FOLDER)
    except FileNotFoundError:
        return
    try:
        while names := _names(top):
            for name in names:
                _remove(name, top)
    finally:
        os.close(top)
    folder.rmdir()


def _remove(name: str, top: int) -> None:
    """Remove an entry of the folder `top`; the folders in it are moved up there, for later."""
    if _unlinked(name, top):
        return
    inner = _opened(name, top)
    try:
        for entry in _names(inner):
            if not _unlinked(entry, inner):
                os.close(_opened(entry, inner))
                aside = f".{os.urandom(8).hex()}.part"
                os.rename(entry, aside, src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _names(folder: int) -> list[str]:
    return os.listdir(folder)


def _unlinked(name: str, folder: int) -> bool:
    """Remove what is no folder; whether it was none."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        return False
    return True


def _opened(name: str, above: int) -> int:
    """A folder in another, open for reading; what its owner may not empty or move, he may then."""
    place = os.open(name, os.O_PATH | _FOLDER, dir_fd=above)
    try:
        Path(f"/proc/self/fd/{place}").chmod(0o700)
        return os.open(".", os.O_RDONLY | _FOLDER, dir_fd=place)
    finally:
        os.close(place)

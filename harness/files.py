"""Publishing and reading files so that a kill at any instant leaves the old or the new, whole.

Publishing is: write beside the target, flush to disk, rename over it, flush the folder.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from harness.errors import Refused

_CHUNK = 1 << 20
_COMPARED = 1 << 18  # two of it stay in a processor's cache
MAX_HOLES = 1 << 30  # bytes of files made of holes that are read all the same


def impossible(path: str) -> str | None:
    """Why no file can have this path, here or in a record; None where one can."""
    if not path or "\0" in path:
        return "is empty, or holds a NUL"
    try:
        path.encode()
        os.lstat(path)
    except UnicodeEncodeError:
        return "is no UTF-8"
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR):
            return error.strerror
    return None


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that a rename in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def part_of(target: Path) -> Path:
    """Where `target` is written before it is published; a kill can leave it behind."""
    return target.with_name(f".{target.name}.part")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of writing `path` say so: a full disk names no file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def publishing(target: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A file that becomes `target` when the block ends well, and vanishes when it does not.

    Raises Refused where `target` is a link, a folder or a special file.
    """
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise Refused(f"{target}: is not a plain file; move it away")
    # One writer a target (the run folder's lock), so a left-over of a killed one is overwritten.
    part = part_of(target)
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with naming(target), os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.rename(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def publish_bytes(target: Path, data: bytes) -> None:
    """Publish `data` as the file `target`."""
    with publishing(target) as file:
        file.write(data)


def publish_file(source: Path, target: Path) -> str:
    """Publish a copy of `source` as `target`, without sharing its inode; returns the SHA-256.

    A copy and not a link: whoever wrote `source` may still hold it open for writing.
    """
    digest = hashlib.sha256()
    with open_plain(source) as read, publishing(target) as write:
        while block := read.read(_CHUNK):
            digest.update(block)
            write.write(block)
    return digest.hexdigest()


def open_plain(path: Path) -> BufferedReader:
    """Open a regular file for reading, following no link in its last component.

    Raises Refused for a link, a folder or a special file; FileNotFoundError where nothing is.
    """
    try:
        # O_NONBLOCK: a pipe put in a file's place must not hang its reader.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # a name with a null byte has no error number
        why = error.strerror if isinstance(error, OSError) else error
        raise Refused(f"{path}: cannot be opened as a plain file ({why})") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Refused(f"{path}: not a regular file")
    return os.fdopen(descriptor, "rb")


def allocated(status: os.stat_result) -> int:
    """The bytes of a file that are there; its holes are not."""
    return 512 * status.st_blocks


def mostly_holes(status: os.stat_result) -> bool:
    """Whether less than a 64th of a file is there.

    Compressing file systems also keep less than the size, though never so much less of weights.
    """
    return status.st_size > 64 * allocated(status)


def hollow(status: os.stat_result, before: int = 0) -> bool:
    """Whether a file is a trap for its readers: huge by its size, but almost all of it holes.

    `before` is the size of other such files that the same reader read: many make a huge one.
    """
    return mostly_holes(status) and before + status.st_size > MAX_HOLES


def open_filled(path: Path) -> BufferedReader:
    """As `open_plain`, and Refused for a file made of holes."""
    file = open_plain(path)
    status = os.fstat(file.fileno())
    if hollow(status):
        file.close()
        raise Refused(f"{path}: is made of holes, {status.st_size} bytes of them")
    return file


def sha256_file(path: Path) -> str:
    """Lower-case hex SHA-256 of a regular file's bytes (no link is followed, no hole is long)."""
    with open_filled(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def same_bytes(file: BufferedReader, other: Path) -> bool:
    """Whether the rest of `file` is what the regular file `other` holds; `file` stays where it is.

    Raises as `open_plain` does.
    """
    start, same = file.tell(), True
    ours, theirs = bytearray(_COMPARED), bytearray(_COMPARED)
    with open_plain(other) as read:
        while same and (size := file.readinto(ours)):
            same = read.readinto(theirs) == size and ours == theirs
        same = same and not read.read(1)
    file.seek(start)
    return same


def resolve_inside(root: Path, path: Path) -> Path:
    """`path` (absolute, or relative to `root`) as a place inside `root`, no component a link.

    Raises Refused where it leaves `root` or a component of it below `root` is a symbolic link.
    """
    root = root.resolve()
    absolute = Path(os.path.normpath(root / path))
    if not absolute.is_relative_to(root):
        raise Refused(f"{path}: lies outside {root}; use a path inside it, or another --root")
    step = root
    for part in absolute.relative_to(root).parts:
        step /= part
        if step.is_symlink():
            raise Refused(f"{step}: is a symbolic link; the harness follows none inside its root")
    return absolute


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """Another path of `folder`, which leads to it alone while the block runs.

    Whatever is put in the folder's place meanwhile, nobody is led elsewhere. Raises OSError where
    `folder` itself is a link or no folder.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def open_log(path: Path) -> BinaryIO:
    """Open a log for appending, mode 0600, following no link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise Refused(f"{path}: cannot be opened as a log ({error.strerror})") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Refused(f"{path}: not a regular file")
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "ab", buffering=0)

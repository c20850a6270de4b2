"""One process at a time at a thing: the next is refused, or waits for its turn."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import Refused


@contextmanager
def only_one(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file `path` while the block runs; the kernel frees it if we are killed.

    Raises Refused where another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Refused(
                f"{what}: another process is at it; wait for it, then run again"
            ) from error
        yield
    finally:
        os.close(descriptor)


@contextmanager
def turn(folder: Path) -> Iterator[None]:
    """Hold the folder's own lock while the block runs, after whoever holds it now.

    For reading a small record in it, changing it and publishing it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

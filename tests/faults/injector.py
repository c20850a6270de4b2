"""Lets one file operation of a launcher go wrong; put in place in the process to suffer it.

The operations are those by which a run folder comes to be: opening for writing, writing,
flushing, renaming, removing, making folders. A fault is a kill before the operation or in the
middle of a write, an error that the operation gives, a signal, a power cut (a kill after which
only that is on the disk what was flushed to it), or a device that is taken away: the operation and
all that come after it fail.
"""

import errno
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EROFS": errno.EROFS}
SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}
ACTIONS = ("kill", "power", "gone", *ERRORS, *SIGNALS)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True, order=True)
class Operation:
    """The `nth` operation of a kind on the file or folder `name`."""

    kind: str
    name: str
    nth: int

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" ({self.nth})" if self.nth > 1 else "")


@dataclass
class Injector:
    """Watches the operations below `run`; `at` one of them, `action` happens."""

    run: Path
    at: Operation | None = None
    action: str = "kill"
    gone: bool = False
    seen: list[Operation] = field(default_factory=list)
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)
    # For the power cut: sizes of what was flushed, by inode, and renames in folders that were not.
    flushed: dict[int, int] = field(default_factory=dict)
    renamed: list[tuple[Path, Path, bytes | None]] = field(default_factory=list)

    def install(self) -> None:
        """Put this between the launcher and the system, for the rest of the process."""
        for path in self._files():
            self.flushed[path.stat().st_ino] = path.stat().st_size
        self._wrap("mkdir", lambda path, *_, **__: path)
        self._wrap("unlink", lambda path, *_, **__: path)
        self._wrap("open", lambda path, flags, *_, **__: path if flags & _WRITING else None)
        self._wrap("rename", lambda _, target, **__: target, self._note_rename)
        self._wrap("fsync", opened_as, self._note_flush)
        ended = sys.exit

        def end(status: object = None) -> None:
            self.reached("exit", self.run)
            ended(status)  # type: ignore[arg-type]

        sys.exit = end  # type: ignore[assignment]
        opened = os.fdopen

        def fdopen(number: int, mode: str = "r", *rest: Any, **options: Any) -> Any:
            file = opened(number, mode, *rest, **options)
            where = opened_as(number)
            return _Writing(file, where, self) if mode in ("wb", "ab") else file

        os.fdopen = fdopen

    def _wrap(
        self, name: str, path_of: Callable[..., Any], note: Callable[..., object] | None = None
    ) -> None:
        real = getattr(os, name)

        def wrapped(*args: Any, **options: Any) -> Any:
            path = path_of(*args, **options)
            if path is not None:
                self.reached(name, os.fspath(path))
            undo = note(*args) if note else None
            result = real(*args, **options)
            if undo is not None:
                self.renamed.append(undo)  # type: ignore[arg-type]
            return result

        setattr(os, name, wrapped)

    def reached(
        self, kind: str, where: str | Path, half: Callable[[], object] = lambda: None
    ) -> None:
        """An operation is about to happen; `half` does a part of it."""
        path = Path(where)
        if path != self.run and self.run not in path.parents:
            return
        name = path.name if path != self.run else "the run folder"
        self.counted[kind, name] += 1
        operation = Operation(kind, name, self.counted[kind, name])
        self.seen.append(operation)
        if self.gone and kind != "exit":
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), str(where))
        if operation != self.at:
            return
        if self.action in SIGNALS:
            os.kill(os.getpid(), SIGNALS[self.action])
            return
        half()
        if self.action == "gone":
            self.gone = True
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), str(where))
        if self.action in ERRORS:
            raise OSError(ERRORS[self.action], os.strerror(ERRORS[self.action]))
        if self.action == "power":
            self.cut()
        os.kill(os.getpid(), signal.SIGKILL)

    def _note_flush(self, number: int) -> None:
        status = os.fstat(number)
        self.flushed[status.st_ino] = status.st_size
        folder = opened_as(number)
        self.renamed = [one for one in self.renamed if one[1].parent != folder]

    def _note_rename(self, source: Any, target: Any) -> tuple[Path, Path, bytes | None] | None:
        source, target = Path(source), Path(target)
        if self.run not in target.parents:
            return None
        return source, target, target.read_bytes() if target.is_file() else None

    def _files(self) -> list[Path]:
        return [path for path in self.run.rglob("*") if path.is_file() and not path.is_symlink()]

    def cut(self) -> None:
        """Leave only what a disk holds for certain."""
        for source, target, before in reversed(self.renamed):
            target.replace(source)
            if before is not None:
                target.write_bytes(before)
                self.flushed[target.stat().st_ino] = len(before)
        for path in self._files():
            kept = self.flushed.get(path.stat().st_ino, 0)
            if path.stat().st_size > kept:
                os.truncate(path, kept)


def opened_as(number: int) -> Path:
    """The path of an open file."""
    return Path(f"/proc/self/fd/{number}").readlink()


class _Writing:
    """A file whose writes are operations; half of the bytes of one that fails are written."""

    def __init__(self, file: Any, where: Path, injector: Injector) -> None:
        self._file, self._where, self._injector = file, where, injector

    def write(self, data: bytes) -> Any:
        def half() -> None:
            self._file.write(data[: len(data) // 2])
            self._file.flush()

        self._injector.reached("write", self._where, half)
        return self._file.write(data)

    def __enter__(self) -> "_Writing":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

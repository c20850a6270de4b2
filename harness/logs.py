"""Logs of a trainer: appended to over attempts, and bounded, whatever it says."""

from pathlib import Path
from types import TracebackType
from typing import Self

from harness.files import open_log

# A log and the one before it: twice this is what a trainer that never ends to talk can fill.
MOST = 64 << 20


def before(log: Path) -> Path:
    """Where a log's older part is once it has grown over MOST."""
    return log.with_name(f"{log.name}.1")


class Log:
    """A log open for appending. Grown over `most` bytes it takes the place of the part before it.

    Raises Refused where the path is a link or no plain file, OSError where nothing can be written.
    """

    def __init__(self, path: Path, most: int = MOST) -> None:
        """Open or make the log at `path`."""
        self.path, self._most = path, most
        self._file = open_log(path)

    def write(self, block: bytes) -> None:
        """Append all of `block`."""
        rest = memoryview(block)
        while rest:
            rest = rest[self._file.write(rest) :]
        if self._file.tell() > self._most:
            self._turn()

    def _turn(self) -> None:
        """Begin anew, with a line that says where the older part is."""
        self.path.replace(before(self.path))
        self._file.close()
        self._file = open_log(self.path)
        self._file.write(f"harness: continued from {before(self.path).name}\n".encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

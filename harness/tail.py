"""The logs of a run, several files as one stream of lines."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

from harness import folder
from harness.errors import Refused
from harness.files import open_plain
from harness.logs import MOST, before
from harness.project import Project
from harness.slurm import files
from harness.text import lines, printable

POLL_SECONDS = 0.5
_BLOCK = 1 << 16
_LONGEST = 1 << 14  # characters of a line that are shown


def of_run(project: Project, run: Path, fault: files.Fault = files.refuse) -> list[Path]:
    """The logs there are now of `run`, a folder or the name of one; its jobs' come first.

    `fault` is told of records that are none. Raises Refused where nothing of that name was
    launched.
    """
    place = run.resolve() if run.is_dir() else project.runs / run.name
    jobs = [one.job for one in files.submissions(project, fault) if one.run.name == place.name]
    own = [path for path in (place / folder.STDOUT, place / folder.STDERR) if path.exists()]
    if not (jobs or own or (place / folder.IDENTITY).exists()):
        raise Refused(f"{run}: no run folder, and no job of this root; see harness status")
    return [*(files.logs(project, jobs[-1]) if jobs else []), *own]


@dataclass
class _Tail:
    """How far one log was read, and the end of it that is no whole line yet."""

    path: Path
    last: int | None = None  # lines to begin with; None: all, as far as a log may grow
    inode: int | None = None
    offset: int = 0
    rest: bytes = field(default=b"")

    def lines(self, whole: bool) -> Iterator[str]:
        """The lines since the last call; with `whole`, an unfinished one too."""
        with open_plain(self.path) as file:
            status = os.fstat(file.fileno())
            if self.inode not in (None, status.st_ino):
                yield from self._turned()
            if self.inode is None:
                self.offset = _start(file, status.st_size, self.last, whole)
            elif status.st_size < self.offset:
                self.offset, self.rest = 0, b""  # emptied, and written anew
            self.inode = status.st_ino
            yield from self._on(file, status.st_size)
        if whole and self.rest:
            yield _shown(self.rest)
            self.rest = b""

    def _turned(self) -> Iterator[str]:
        """What was not read yet of a log that another has taken the place of."""
        with suppress(FileNotFoundError), open_plain(before(self.path)) as older:
            status = os.fstat(older.fileno())
            if status.st_ino == self.inode:
                yield from self._on(older, status.st_size)
        self.offset, self.rest = 0, b""

    def _on(self, file: BufferedReader, end: int) -> Iterator[str]:
        file.seek(self.offset)
        while block := file.read(min(_BLOCK, max(0, end - self.offset))):
            self.offset += len(block)
            *ended, self.rest = (self.rest + block).split(b"\n")
            yield from map(_shown, ended)
            if len(self.rest) > _LONGEST:
                yield _shown(self.rest)
                self.rest = b""


def follow(find: Callable[[], list[Path]], last: int | None, forever: bool) -> Iterator[str]:
    """The lines of every log that `find` names, a header where the log changes.

    With `last`, only so many of each at first; with `forever`, those that come later too.
    """
    tails: dict[Path, _Tail] = {}
    shown: Path | None = None
    begun = False
    while True:
        for path in find():
            tail = tails.setdefault(path, _Tail(path, None if begun else last))
            for line in tail.lines(whole=not forever):
                if shown != path:
                    yield f"==> {printable(path.name)} <=="
                    shown = path
                yield line
        begun = True
        if not forever:
            return
        time.sleep(POLL_SECONDS)


def _start(file: BufferedReader, size: int, last: int | None, whole: bool) -> int:
    """Where the `last` lines of a log begin, found from its end.

    With `whole`, an unfinished one counts. Of lines without end only so many blocks are read.
    """
    if last is None:
        return max(0, size - MOST)
    floor = max(0, size - min(MOST, max(1, last) * _BLOCK))
    at, ends = size, last + 1  # line ends to go back over
    if whole and size and os.pread(file.fileno(), 1, size - 1) != b"\n":
        ends = last
    if ends == 0:
        return size
    while at > floor:
        start = max(floor, at - _BLOCK)
        block = os.pread(file.fileno(), at - start, start)
        if (here := block.count(b"\n")) >= ends:
            return start + _after(block, here - ends)
        at, ends = start, ends - here
    return floor


def _after(block: bytes, before: int) -> int:
    """The place behind the line end that `before` others precede."""
    place = 0
    for _ in range(before + 1):
        place = block.index(b"\n", place) + 1
    return place


def _shown(line: bytes) -> str:
    text = line[: 4 * _LONGEST].decode(errors="replace").rstrip("\r")[:_LONGEST]
    return lines(text)

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
from harness.logs import before
from harness.project import Project
from harness.slurm import files
from harness.text import lines, printable

POLL_SECONDS = 0.5
_BLOCK = 1 << 16
_LONGEST = 1 << 14  # characters of a line that are shown


def of_run(project: Project, run: Path) -> list[Path]:
    """The logs there are now of `run`, a folder or the name of one; its jobs' come first.

    Raises Refused where nothing of that name was launched.
    """
    place = run.resolve() if run.is_dir() else project.runs / run.name
    jobs = [one.job for one in files.submissions(project) if one.run.name == place.name]
    if not place.is_dir() and not jobs:
        raise Refused(f"{run}: no run folder, and no job of this root; see harness status")
    said = files.logs(project, jobs[-1]) if jobs else []
    return [*said, *(p for p in (place / folder.STDOUT, place / folder.STDERR) if p.exists())]


@dataclass
class _Tail:
    """How far one log was read, and the end of it that is no whole line yet."""

    path: Path
    inode: int | None = None
    offset: int = 0
    rest: bytes = field(default=b"")

    def lines(self, whole: bool) -> Iterator[str]:
        """The lines since the last call; with `whole`, an unfinished one too."""
        with open_plain(self.path) as file:
            status = os.fstat(file.fileno())
            if self.inode not in (None, status.st_ino):
                yield from self._turned()
            if status.st_size < self.offset:
                self.offset, self.rest = 0, b""  # emptied, and written anew
            self.inode = status.st_ino
            yield from self._on(file)
        if whole and self.rest:
            yield _shown(self.rest)
            self.rest = b""

    def _turned(self) -> Iterator[str]:
        """What was not read yet of a log that another has taken the place of."""
        with suppress(FileNotFoundError), open_plain(before(self.path)) as older:
            if os.fstat(older.fileno()).st_ino == self.inode:
                yield from self._on(older)
        self.offset, self.rest = 0, b""

    def _on(self, file: BufferedReader) -> Iterator[str]:
        file.seek(self.offset)
        while block := file.read(_BLOCK):
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
            tail = tails.setdefault(path, _Tail(path))
            lines = list(tail.lines(whole=not forever))
            if last is not None and not begun:
                lines = lines[len(lines) - min(last, len(lines)) :]
            if lines and shown != path:
                yield f"==> {printable(path.name)} <=="
                shown = path
            yield from lines
        begun = True
        if not forever:
            return
        time.sleep(POLL_SECONDS)


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip("\r")[:_LONGEST]
    return lines(text)

"""Limits on a sandbox's memory and tasks, set in control groups of its own (v2, or the older v1).

Which groups a user may make is the machine's to say: systemd delegates some, containers seldom.
A limit that cannot be set is refused, never left out.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import Refused

ROOT = Path("/sys/fs/cgroup")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# What to write where, by controller: in v2, and in v1; a file that is not there is passed over.
_FILES = {
    "memory": (
        ("memory.max", "memory.swap.max"),
        ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    ),
    "pids": (("pids.max",), ("pids.max",)),
}
_PREFIX = "harness-"


@dataclass(frozen=True)
class Limits:
    """The most memory (bytes; with scratch files, without swap) and tasks (threads count too)."""

    memory: int | None = None
    tasks: int | None = None

    @staticmethod
    def of(memory: str | None, tasks: int | None) -> "Limits":
        """Limits as a user gives them. Raises Refused for nonsense, and what cannot be set here."""
        if tasks is not None and tasks < 1:
            raise Refused(f"--tasks {tasks}: must be a positive number of processes and threads")
        limits = Limits(None if memory is None else size(memory), tasks)
        for name in limits.wanted():
            place(name)
        return limits

    def wanted(self) -> dict[str, int]:
        """The limit of each controller that has one."""
        both = {"memory": self.memory, "pids": self.tasks}
        return {name: value for name, value in both.items() if value is not None}


NONE = Limits()


def size(text: str) -> int:
    """Bytes, of `8G`, `512M` or a plain number. Raises Refused for anything else."""
    found = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", text)
    if found is None or int(found[1]) == 0:
        raise Refused(f"--memory {text}: must be a number of bytes, or of K, M, G or T (8G)")
    return int(found[1]) * _UNITS[found[2]]


@dataclass(frozen=True)
class Place:
    """The control group below which this process may make others, for one controller."""

    folder: Path
    unified: bool


@dataclass
class Group:
    """The control groups of one sandbox, by controller; none where nothing is limited."""

    folders: Mapping[str, Path] = field(default_factory=dict)

    def join(self) -> None:
        """Move the calling process, and what it will start, into the groups."""
        for folder in dict.fromkeys(self.folders.values()):
            (folder / "cgroup.procs").write_text("0")

    def exhausted(self) -> bool:
        """Whether a process in the group was ended because memory had come to its limit."""
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError, KeyError):
                text = (self.folders["memory"] / name).read_text()
                if found := re.search(r"^oom_kill (\d+)$", text, re.M):
                    return int(found[1]) > 0
        return False


@contextmanager
def group(limits: Limits, root: Path = ROOT) -> Iterator[Group]:
    """Control groups with these limits, removed at the end.

    Raises Refused where this user or this machine cannot have them.
    """
    made: dict[str, Path] = {}
    try:
        for name, value in limits.wanted().items():
            made[name] = _make(name, value, place(name, root))
        yield Group(made)
    finally:
        for folder in dict.fromkeys(made.values()):
            _remove(folder)


def place(controller: str, root: Path = ROOT) -> Place:
    """Where groups for a controller can be made. Raises Refused with what is in the way."""
    why = "no control group here has this controller"
    own = _own()
    unified = root / own.get("", "").lstrip("/")
    older = root / controller / own.get(controller, "").lstrip("/")
    if controller in _words(unified / "cgroup.subtree_control"):
        found = Place(unified, unified=True)
    elif (root / controller / "cgroup.procs").is_file():
        found = Place(older if older.is_dir() else root / controller, unified=False)
    else:
        if controller in _words(unified / "cgroup.controllers"):
            why = f"{unified} does not hand this controller on"
        raise _refused(controller, why)
    if not os.access(found.folder, os.W_OK):
        raise _refused(controller, f"{found.folder} is not yours to write")
    return found


def _own() -> dict[str, str]:
    """This process's group by controller; that of the unified hierarchy by an empty name."""
    rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    return {name: path for _, names, path in rows for name in names.split(",")}


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _refused(controller: str, why: str) -> Refused:
    option = {"memory": "--memory", "pids": "--tasks"}[controller]
    return Refused(
        f"{option}: cannot be limited here: {why}; leave it out, or limit the whole command "
        "(systemd-run --user --scope -p MemoryMax=8G -p TasksMax=512 ...)"
    )


def _make(controller: str, value: int, where: Place) -> Path:
    for old in where.folder.glob(f"{_PREFIX}*"):  # of launches that were killed
        if not Path("/proc", old.name.removeprefix(_PREFIX)).exists():
            _remove(old, patience=0)
    folder = where.folder / f"{_PREFIX}{os.getpid()}"
    try:
        folder.mkdir(exist_ok=True)
        for number, name in enumerate(_FILES[controller][0 if where.unified else 1]):
            if number == 0 or (folder / name).exists():
                swap = number == 1 and where.unified
                (folder / name).write_text("0" if swap else str(value))
    except OSError as error:
        _remove(folder)
        raise _refused(controller, f"{folder}: {error.strerror}") from error
    return folder


def _remove(folder: Path, patience: float = 2.0) -> None:
    """Remove a group; its last processes may take a moment to be gone."""
    until = time.monotonic() + patience
    while folder.exists():
        with suppress(OSError):
            folder.rmdir()
            return
        if time.monotonic() > until:
            return
        time.sleep(0.02)

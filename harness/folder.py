"""A run folder: its records, its lock, and what state it is in. State is read from disk alone."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from harness.canonical import digest
from harness.errors import Refused
from harness.files import open_plain, part_of, sha256_file
from harness.identity import Identity, differences
from harness.schemas import read_record

RECIPE = "recipe.json"
ARGV = "launch_argv.json"
IDENTITY = "identity.json"
PROVENANCE = "provenance.json"
CONFIG = "config.yaml"
STDOUT = "stdout.log"
STDERR = "stderr.log"
MODEL = "model.ckpt"
COMPLETED = "completed.json"
OUTPUT = "output"
LOCK = ".lock"


class State(Enum):
    """What a run folder holds of a launch."""

    EMPTY = "empty"
    STARTED = "started"
    COMPLETE = "complete"


@dataclass(frozen=True)
class Entry:
    """One file of a run folder: its path in it, size in bytes and SHA-256."""

    path: str
    size: int
    sha256: str


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold the run folder for one launch. Raises Refused where another process holds it."""
    run.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(run / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Refused(f"{run}: another launch is using it; wait for it to end") from error
        yield
    finally:
        os.close(descriptor)


def state(run: Path, identity: Identity) -> State:
    """What `run` holds of this launch.

    Raises Refused where it belongs to another launch (naming what differs), or where a completed
    run's files no longer have their digests: neither is ever overwritten.
    """
    if not (run / IDENTITY).exists():
        ours = (LOCK, part_of(run / IDENTITY).name)  # what a kill before the identity leaves
        others = sorted(entry.name for entry in run.iterdir() if entry.name not in ours)
        if others:
            raise Refused(f"{run}: holds {others[0]} but no {IDENTITY}; move it away")
        return State.EMPTY
    recorded = read_record(run / IDENTITY, "identity")
    if digest(recorded) != identity.sha256:
        fields = ", ".join(differences(recorded, identity.document)[:4])
        raise Refused(
            f"{run}: belongs to another launch (differs in {fields}); "
            "choose another --name or move it away"
        )
    if not (run / COMPLETED).exists():
        return State.STARTED
    faults = altered(run, completed(run))
    if faults:
        raise Refused(f"{run}: is complete but {faults[0]}; 'harness audit' tells all of it")
    return State.COMPLETE


def completed(run: Path) -> dict[str, object]:
    """The completion record. Raises Refused where it is absent, malformed or altered."""
    record = read_record(run / COMPLETED, "completed")
    body = {name: value for name, value in record.items() if name != "sha256"}
    if record["sha256"] != digest(body):
        raise Refused(f"{run / COMPLETED}: does not have its own digest; it was altered")
    return record


def altered(run: Path, record: dict[str, object]) -> list[str]:
    """How the files of `run` differ from its completion record's inventory, a line each."""
    listed = record["files"]
    assert isinstance(listed, list)  # the schema says so
    expected = {entry["path"]: entry for entry in listed}
    found = {entry.path: entry for entry in inventory(run)}
    lines = [f"{path} is missing" for path in expected if path not in found]
    lines += [f"{path} was added" for path in found if path not in expected]
    for path, entry in found.items():
        known = expected.get(path)
        if known and (known["size"], known["sha256"]) != (entry.size, entry.sha256):
            lines.append(f"{path} has other bytes than recorded")
    return sorted(lines)


def inventory(run: Path) -> list[Entry]:
    """Every file of a run folder but the lock and the completion record, in path order.

    Raises Refused for a link or a special file: neither can be part of a result.
    """
    entries = []
    for path in _walk(run):
        name = path.relative_to(run).as_posix()
        if name in (LOCK, COMPLETED):
            continue
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
        entries.append(Entry(name, size, sha256_file(path)))
    return sorted(entries, key=lambda entry: entry.path)


def _walk(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise Refused(f"{entry.path}: is a symbolic link; a run folder holds none")
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path))
            else:
                yield Path(entry.path)

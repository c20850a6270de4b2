"""A run folder: its records, its lock, and what state it is in. State is read from disk alone."""

import errno
import fcntl
import hashlib
import itertools
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from harness.canonical import digest
from harness.errors import Refused
from harness.files import hollow, mostly_holes, open_plain, part_of, same_bytes, sync_folder
from harness.identity import Identity, differences
from harness.schemas import read_record
from harness.trees import folders

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
# A trainer leaves some dozens of files; each of so many can still be hashed and recorded.
MAX_ENTRIES = 100_000
_EMPTY = "is an empty folder"
_LINKED = "is a hard link: another name shares its bytes"


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
    """Hold the run folder for one launch. Raises Refused where another process holds it.

    Where the folder cannot be written it is held for reading: a finished run can still be found.
    """
    run.mkdir(parents=True, exist_ok=True)
    descriptor, kind = _open_lock(run)
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Refused(f"{run}: another launch is using it; wait for it to end") from error
        yield
    finally:
        os.close(descriptor)


def _open_lock(run: Path) -> tuple[int, int]:
    """A descriptor to lock a run folder by, and the kind of lock."""
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(run / LOCK, flags | os.O_RDWR | os.O_CREAT, 0o644), fcntl.LOCK_EX
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES) or not (run / COMPLETED).exists():
            raise
    place = run / LOCK if (run / LOCK).exists() else run
    return os.open(place, flags | os.O_RDONLY), fcntl.LOCK_SH


def state(run: Path, identity: Identity) -> State:
    """What `run` holds of this launch.

    Raises Refused where it belongs to another launch (naming what differs), or where a completed
    run's files no longer have their digests: neither is ever overwritten.
    """
    entries = sorted(run.iterdir())
    names = [entry.name for entry in entries]
    for entry in entries:
        if entry.is_symlink():
            raise Refused(f"{entry}: is a symbolic link; the harness follows none in a run folder")
    if IDENTITY not in names:
        ours = (LOCK, part_of(run / IDENTITY).name)  # what a kill before the identity leaves
        others = [name for name in names if name not in ours]
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
    if COMPLETED not in names:
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
    found, faults = scan(run)
    named = [f"{path} {fault}" for path, fault in (faults | unlike(found, record)).items()]
    return sorted(named)


def unlike(found: Mapping[str, Entry], record: dict[str, object]) -> dict[str, str]:
    """Each path at which `found` is not as the completion record lists it, and how."""
    listed = record["files"]
    assert isinstance(listed, list)  # the schema says so
    expected = {entry["path"]: entry for entry in listed}
    faults = {path: "is missing" for path in expected if path not in found}
    faults |= {path: "was added" for path in found if path not in expected}
    for path, entry in found.items():
        known = expected.get(path)
        if known and (known["size"], known["sha256"]) != (entry.size, entry.sha256):
            faults[path] = "has other bytes than recorded"
    return faults


def inventory(run: Path) -> list[Entry]:
    """Every file of a run folder but the completion record, in path order, flushed to disk.

    Whoever wrote them: the record that is to list them must not outlive them in a power cut.
    Empty folders are removed: no record lists one, so that one in a finished run was added.
    Raises Refused for what cannot be part of a result, as `scan` finds it.
    """
    below = list(itertools.islice(folders(run), 1, MAX_ENTRIES + 2))
    if len(below) > MAX_ENTRIES:
        raise Refused(f"{run}: comes to over {MAX_ENTRIES} folders; no trainer leaves so many")
    for one in reversed(below):
        with suppress(OSError):  # it is not empty
            one.rmdir()
    found, faults = scan(run)
    for path, fault in faults.items():
        raise Refused(f"{run / path}: {fault}; a run folder holds plain files only")
    for path in found:
        with open_plain(run / path) as file:
            os.fsync(file.fileno())
    for name in ("", *folders_of(found)):
        sync_folder(run / name)
    return [found[path] for path in sorted(found)]


def scan(run: Path) -> tuple[dict[str, Entry], dict[str, str]]:
    """Every file of a run folder but the completion record; and each path at fault, and how.

    At fault are links, files with a second name (whoever holds it can change a result from
    outside), special files, what cannot be read, files made of holes, empty folders, and a folder
    with too much in it to look at all. A run has its checkpoint twice: a file that is another's
    equal, byte for byte, has its digest, and comparing is far quicker than hashing.
    """
    found: dict[str, Entry] = {}
    faults: dict[str, str] = {}
    hashed: dict[int, Entry] = {}  # by size
    holes = 0  # bytes, by their size, of the files read that were almost nothing else
    for path in _walk(run, faults):
        name = path.relative_to(run).as_posix()
        try:
            with open_plain(path) as file:
                status = os.fstat(file.fileno())
                if hollow(status, holes):
                    faults[name] = f"is made of holes, {status.st_size} bytes of them"
                    continue
                holes += status.st_size if mostly_holes(status) else 0
                # The disk reads ahead while what came before is hashed.
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
                twin = hashed.get(status.st_size)
                if twin and same_bytes(file, run / twin.path):
                    sha256 = twin.sha256
                else:
                    sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        except (Refused, OSError):
            faults[name] = "is no readable plain file"
            continue
        if status.st_nlink > 1:
            faults[name] = _LINKED
        if not _utf8(name):
            faults[name] = "has a name that is no UTF-8"
        found[name] = hashed[status.st_size] = Entry(name, status.st_size, sha256)
    found.pop(COMPLETED, None)  # it lists the others
    return found, faults


def folders_of(paths: Iterable[str]) -> list[str]:
    """Every folder that one of `paths` lies in, once; each path costs only what it adds."""
    found: dict[str, None] = {}
    for path in paths:
        above = os.path.dirname(path)  # noqa: PTH120
        while above and above not in found:
            found[above] = None
            above = os.path.dirname(above)  # noqa: PTH120
    return sorted(found)


def check(run: Path) -> None:
    """Look at every name in a run folder before anything there is read, written or removed.

    A trainer could do all of that to its output. Raises Refused for a link, a file with a second
    name, and what is neither file nor folder: who follows one is led out of the run folder.
    """
    faults: dict[str, str] = {}
    for path in _walk(run, faults):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            faults[path.relative_to(run).as_posix()] = "is neither a plain file nor a folder"
        elif status.st_nlink > 1:
            faults[path.relative_to(run).as_posix()] = _LINKED
    for name, fault in faults.items():
        if fault != _EMPTY:
            raise Refused(f"{run / name}: {fault}; move {run / OUTPUT} away to start again")


def _utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _walk(run: Path, faults: dict[str, str]) -> Iterator[Path]:
    """Every entry below `run` that is neither folder nor link; links become `faults`."""
    folders = [run]
    left = MAX_ENTRIES
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listed:
                entries = list(itertools.islice(listed, left + 1))
        except OSError:
            faults[folder.relative_to(run).as_posix()] = "is a folder that cannot be read"
            continue
        left -= len(entries)
        if not entries and folder != run:
            faults[folder.relative_to(run).as_posix()] = _EMPTY
        if left < 0:
            name = folder.relative_to(run).as_posix()
            faults[name] = f"is where the run comes to over {MAX_ENTRIES} files and folders"
            return
        for entry in entries:
            path = Path(entry.path)
            if entry.is_symlink():
                faults[path.relative_to(run).as_posix()] = "is a symbolic link"
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            else:
                yield path

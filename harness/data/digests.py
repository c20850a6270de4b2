"""SHA-256 of files, hashed on all cores, and remembered by what `stat` says of them.

A remembered digest holds while device, inode, size, modification and change time stay as they
were. A file changed just before it was hashed is not remembered: a second change in the same
tick of the clock would go unseen.
"""

import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from harness.data.locking import turn
from harness.data.places import Places
from harness.data.progress import Progress, silent
from harness.errors import Refused
from harness.files import sha256_file
from harness.json_files import publish_json, read_json
from harness.project import Project

_SETTLED = 1_000_000_000  # nanoseconds


def _mib(size: int) -> int:
    return -(-size // 2**20)


def _key(status: os.stat_result) -> str:
    parts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return ":".join(map(str, parts))


class Digests:
    """Digests of files, computed once and remembered in the file `store`."""

    def __init__(self, store: Path, *, full: bool = False) -> None:
        """Read what is remembered; with `full` nothing is believed and all is hashed anew."""
        self.store = store
        self._known: dict[str, str] = {}
        if store.is_file() and not full:
            self._known = _read(store)

    @classmethod
    def of_project(cls, project: Project) -> "Digests":
        """The digests that a project remembers."""
        return cls(Places.of(project).digests, full=project.distrust)

    def of(self, paths: Iterable[Path], progress: Progress = silent) -> Mapping[Path, str]:
        """The digest of each path; links are refused.

        Raises Refused for anything but a regular file, and for one that changes meanwhile.
        """
        found, unknown = {}, {}
        for path in paths:
            try:
                status = path.lstat()
            except FileNotFoundError as error:
                raise Refused(f"{path}: not found") from error
            key = _key(status)
            if key in self._known:
                found[path] = self._known[key]
            else:
                unknown[path] = status
        if unknown:
            found |= self._hash(unknown, progress)
        return found

    def _hash(self, files: Mapping[Path, os.stat_result], progress: Progress) -> Mapping[Path, str]:
        began = time.time_ns()
        # The largest first, so that no core is left with one long file at the end.
        order = sorted(files, key=lambda path: -files[path].st_size)
        total, done, found = sum(s.st_size for s in files.values()), 0, {}
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for path, sha256 in zip(order, pool.map(sha256_file, order), strict=True):
                before = files[path]
                if _key(path.lstat()) != _key(before):
                    raise Refused(f"{path}: changed while it was read; run again")
                found[path] = sha256
                if before.st_ctime_ns < began - _SETTLED:
                    self._known[_key(before)] = sha256
                done += before.st_size
                progress("MiB hashed", _mib(done), _mib(total))
        self._remember()
        return found

    def _remember(self) -> None:
        """Add to what is remembered, one process at a time.

        Where nothing can be written (a full disk, a read-only one), it only takes longer next time.
        """
        with suppress(OSError):
            self.store.parent.mkdir(parents=True, exist_ok=True)
            with turn(self.store.parent):
                publish_json(self.store, {**_read(self.store), **self._known})


def _read(store: Path) -> dict[str, str]:
    """What is remembered; a file that is not ours counts as nothing remembered."""
    try:
        value = read_json(store)
    except Refused:
        return {}
    if not isinstance(value, dict):
        return {}
    return {str(key): str(sha256) for key, sha256 in value.items()}

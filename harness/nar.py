"""The Nix archive digest of a tree, so that a tree's identity is the one Nix gives it.

Format: "The Purely Functional Software Deployment Model" (Dolstra 2006), figure 5.2: a
deterministic serialisation of names, contents, the executable bit and link targets. Times,
owners and other modes do not count.
"""

import base64
import hashlib
import os
import stat
from pathlib import Path
from typing import Protocol

from harness.errors import Refused

_CHUNK = 1 << 20


class _Sink(Protocol):
    def update(self, data: bytes, /) -> None: ...


def nar_sha256(
    path: Path, *, exclude: frozenset[str] = frozenset(), only: frozenset[str] | None = None
) -> str:
    """Digest of the tree at `path` as Nix writes it: `sha256-<base64>`.

    `exclude` names folders left out wherever they stand (byte-code caches, say); of the topmost
    folder's entries, those that `only` names count, or all.
    Raises Refused for sockets, devices and pipes, which no archive can hold, and for a tree some
    hundreds of folders deep.
    """
    sink = hashlib.sha256()
    _string(sink, b"nix-archive-1")
    try:
        _node(sink, path, exclude, only)
    except RecursionError:
        raise Refused(f"{path}: has folders within folders, too deep for any source tree") from None
    return "sha256-" + base64.b64encode(sink.digest()).decode()


def _string(sink: _Sink, data: bytes) -> None:
    sink.update(len(data).to_bytes(8, "little"))
    sink.update(data)
    sink.update(b"\0" * (-len(data) % 8))


def _node(
    sink: _Sink, path: Path, exclude: frozenset[str], only: frozenset[str] | None = None
) -> None:
    _string(sink, b"(")
    _string(sink, b"type")
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(path)  # noqa: PTH115 - a Path would drop a trailing slash
        for part in (b"symlink", b"target", os.fsencode(target)):
            _string(sink, part)
    elif stat.S_ISREG(status.st_mode):
        _string(sink, b"regular")
        if status.st_mode & stat.S_IXUSR:
            _string(sink, b"executable")
            _string(sink, b"")
        _contents(sink, path, status.st_size)
    elif stat.S_ISDIR(status.st_mode):
        _string(sink, b"directory")
        for name in sorted(os.fsencode(entry.name) for entry in path.iterdir()):
            if os.fsdecode(name) in exclude and _is_folder(path / os.fsdecode(name)):
                continue
            if only is not None and os.fsdecode(name) not in only:
                continue
            for part in (b"entry", b"(", b"name", name, b"node"):
                _string(sink, part)
            _node(sink, path / os.fsdecode(name), exclude)
            _string(sink, b")")
    else:
        raise Refused(f"{path}: neither file, folder nor link; a source tree holds only these")
    _string(sink, b")")


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def _contents(sink: _Sink, path: Path, size: int) -> None:
    _string(sink, b"contents")
    sink.update(size.to_bytes(8, "little"))
    seen = 0
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            sink.update(block)
            seen += len(block)
    if seen != size:
        raise Refused(f"{path}: changed while it was read; try again when nothing writes to it")
    sink.update(b"\0" * (-size % 8))

"""Adding a repository to `pins.json`: its revision now, and the SHA-256 of its every file."""

import json
from pathlib import Path
from typing import Any

from harness.data import names
from harness.data.hub import Entry, Hub, Repository, RepoType, link
from harness.data.locking import turn
from harness.data.places import Places
from harness.data.progress import Progress
from harness.errors import Refused
from harness.files import publish_bytes, sha256_file
from harness.json_files import read_json
from harness.schemas import validate

_TABLES = {"model": "models", "dataset": "repositories"}


def check_key(key: str) -> None:
    """Refuse what can name no pin."""
    if not names.is_key(key):
        raise Refused(f"pin {key!r}: no name for a pin; give a --key of letters, digits, . _ -")


def resolve(hub: Hub, kind: RepoType, repo: str, revision: str | None) -> Repository:
    """The repository at the commit that `revision` (None: its default branch) is now."""
    return Repository(kind, repo, hub.revision(kind, repo, revision))


def pin(hub: Hub, places: Places, repository: Repository, progress: Progress) -> dict[str, Any]:
    """The pin's entry. Small files, whose SHA-256 the Hub does not tell, are fetched for it."""
    entries = hub.files(repository)
    small: dict[str, str] = {}
    large: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        if entry.sha256 is not None:
            large[entry.path] = entry.sha256
        else:
            small[entry.path] = _sha256(hub, places, repository, entry)
        progress(f"{repository.repo} digests", number, len(entries))
    about: dict[str, Any] = {"repo": repository.repo, "revision": repository.revision}
    if repository.kind == "model":
        return {"kind": "hub", **about, "files": small, "weights": large}
    return {**about, "files": dict(sorted({**small, **large}.items()))}


def _sha256(hub: Hub, places: Places, repository: Repository, entry: Entry) -> str:
    blob = hub.blob(repository, entry, places.hub, lambda done: None)
    link(repository, entry, places.hub, blob)
    return sha256_file(blob)


def add(path: Path, key: str, repository: Repository, entry: dict[str, Any]) -> bool:
    """Put the entry under `key` into the pins file, checked against its schema.

    Returns whether it was not there yet. Raises Refused where the key is taken by another
    repository or revision.
    """
    with turn(path.parent):
        return _add(path, key, repository, entry)


def _add(path: Path, key: str, repository: Repository, entry: dict[str, Any]) -> bool:
    document: Any = read_json(path)
    for table in ("datasets", "models", "repositories"):
        taken = document.get(table, {}).get(key)
        if taken is not None and taken.get("revision") != repository.revision:
            raise Refused(
                f"pin {key}: is already {taken.get('repo', key)}@{taken['revision'][:12]}; "
                "choose another --key, or remove it from pins.json first"
            )
        if taken is not None:
            return False
    document.setdefault(_TABLES[repository.kind], {})[key] = entry
    validate(document, "pins", str(path))
    publish_bytes(path, json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n")
    return True

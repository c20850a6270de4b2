"""What a run folder says of itself: its records, each checked alone, and its files' digests."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness import folder
from harness.audit.machine import Machine
from harness.audit.verdicts import Claim, differs, holds, unchecked
from harness.errors import HarnessError
from harness.files import open_plain
from harness.folder import Entry
from harness.json_files import json_bytes
from harness.project import Project
from harness.run import INTERRUPTED
from harness.schemas import read_record

RECORDS = {
    folder.IDENTITY: "identity",
    folder.PROVENANCE: "provenance",
    folder.COMPLETED: "completed",
}


@dataclass(frozen=True)
class Recorded:
    """A run folder as found: `records` holds only those that are valid, by file name."""

    machine: Machine
    run: Path
    records: Mapping[str, dict[str, Any]]
    files: Mapping[str, Entry]
    faults: Mapping[str, str]
    now: datetime

    @property
    def project(self) -> Project:
        """The project whose pins the run is checked against."""
        return self.machine.project

    @property
    def identity(self) -> dict[str, Any]:
        """The launch identity; only for a check that needs it."""
        return self.records[folder.IDENTITY]

    @property
    def provenance(self) -> dict[str, Any]:
        """The facts of the attempts; only for a check that needs them."""
        return self.records[folder.PROVENANCE]

    @property
    def completed(self) -> dict[str, Any]:
        """The completion record; only for a check that needs it."""
        return self.records[folder.COMPLETED]

    @property
    def unfinished(self) -> str | None:
        """Why there is no result yet, by the records; None where there is or should be one."""
        if folder.PROVENANCE not in self.records or (self.run / folder.COMPLETED).is_symlink():
            return None
        if (self.run / folder.COMPLETED).exists():
            return None
        status = self.provenance["attempts"][-1]["status"]
        if status is None:
            return "not finished: it is running, or ended without a word"
        return "not finished: it was interrupted" if status in INTERRUPTED else None

    def sha256(self, name: str) -> str:
        """The digest of a file as found, or words that equal no digest where there is none."""
        entry = self.files.get(name)
        return entry.sha256 if entry else f"no readable {name}"


def read(machine: Machine, run: Path) -> tuple[Recorded, list[Claim]]:
    """Read the run folder whole; the claims are one for each record."""
    records: dict[str, dict[str, Any]] = {}
    claims = {}
    for name, schema in RECORDS.items():
        try:
            records[name] = _record(run / name, schema)
            claims[name] = holds(name)
        except (HarnessError, OSError, ValueError, RecursionError) as error:
            claims[name] = differs(name, str(error).removeprefix(f"{run}/"))
    files, faults = folder.scan(run)
    recorded = Recorded(machine, run, records, files, faults, datetime.now(UTC))
    if recorded.unfinished:
        claims[folder.COMPLETED] = unchecked(folder.COMPLETED, recorded.unfinished)
    return recorded, list(claims.values())


def _record(path: Path, schema: str) -> dict[str, Any]:
    """A record of ours: valid, with its own digest where it has one, in the bytes we write."""
    if path.name == folder.COMPLETED:
        value: dict[str, Any] = folder.completed(path.parent)
    else:
        value = read_record(path, schema)
    with open_plain(path) as file:
        if file.read() != json_bytes(value):
            raise ValueError(f"{path}: says what it should, but not in the bytes it was written in")
    return value

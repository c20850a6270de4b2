"""The checkpoint a run was taught by: where it lies here, and how it was adapted.

A run's own word for where it lies is not taken for more than that: it could be any file.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness import adaptation, folder
from harness.audit.recorded import Recorded
from harness.audit.verdicts import Claim, differs, equal, holds, unchecked
from harness.errors import HarnessError, Refused
from harness.files import resolve_inside, sha256_file
from harness.identity import each
from harness.project import Project
from harness.schemas import read_record


def find(
    project: Project, run: Path, identity: Mapping[str, Any], provenance: Mapping[str, Any]
) -> tuple[Path | None, ...]:
    """Each teacher's file: where it was, or in a run beside this one or in the project."""
    teachers, paths = each(identity["teacher"]), each(provenance["paths"].get("teacher"))
    pairs = zip_longest(teachers, paths[: len(teachers)])
    found = [(teacher["sha256"], _named(project, run, path)) for teacher, path in pairs]
    wanted = {sha256 for sha256, file in found if file is None}
    results = _results(project, run, wanted) if wanted else {}
    return tuple(file or results.get(sha256) for sha256, file in found)


def _named(project: Project, run: Path, path: str | None) -> Path | None:
    """The file that a run names as its teacher, where a launch could have had it there.

    That is anywhere in the project's root, or as the result of a run beside this one; no link
    leads there, and it is no file of the kernel's, which has nothing on a disk.
    """
    if path is None:
        return None
    file = Path(os.path.normpath(path))
    beside = file.name == folder.MODEL and file.parent.parent == run.parent
    try:
        file = resolve_inside(run.parent if beside else project.root, file)
        status = file.lstat()
    except (Refused, OSError, ValueError):  # too long a path, or one with a null byte
        return None
    return file if stat.S_ISREG(status.st_mode) and status.st_blocks else None


def _results(project: Project, run: Path, wanted: set[str]) -> dict[str, Path]:
    """The checkpoints with these digests, by the records of the runs they are results of."""
    found: dict[str, Path] = {}
    for home in dict.fromkeys((run.parent, project.runs)):
        for completed in sorted(home.glob(f"*/{folder.COMPLETED}")):
            other = completed.parent
            if other == run or other.is_symlink():
                continue
            sha256 = _result(other)
            if sha256 in wanted:
                found.setdefault(sha256, other / folder.MODEL)
        if len(found) == len(wanted):
            break
    return found


def _result(run: Path) -> str:
    """The digest a run records of its checkpoint; empty where its record is not valid."""
    try:
        checkpoint: Any = folder.completed(run)["checkpoint"]
    except (HarnessError, OSError, ValueError, RecursionError):
        return ""
    return str(checkpoint["sha256"])


def same(name: str, sha256: str, path: Path) -> Claim:
    """The claim that a file has a digest; another one is not told: it could be any file's."""
    if sha256_file(path) == sha256:
        return holds(name, sha256)
    return differs(name, f"{path.name} has other bytes than recorded")


def adapted(run: Recorded) -> Iterator[Claim]:
    """The adapted teacher has the recorded bytes, and was made from the teacher by this code."""
    recorded = run.identity["transformation"]
    if recorded is None:
        return
    code = adaptation.code_sha256(run.project)
    yield equal("transformation's code", recorded["code_sha256"], code, "harness/inside")
    teacher, fields = run.identity["teacher"], run.identity["recipe"]["fields"]
    yield equal("transformation", fields.get("transformation"), recorded["name"])
    decided = adaptation.decided(
        *(fields, recorded["code_sha256"]),
        *(teacher["sha256"], teacher["identity"], teacher["weights"]),
    )
    # Where it was is not asked: its place follows from what it was made from.
    path = adaptation.place(run.project, decided) / folder.MODEL
    if not path.is_file() or path.is_symlink():
        yield unchecked("adapted teacher", "is not on this machine; the same launch makes it again")
        return
    yield same("adapted teacher", recorded["output_sha256"], path)
    record = read_record(path.with_name(adaptation.PROVENANCE), "teacher")
    expected = {**decided, "output_sha256": recorded["output_sha256"]}
    found = {name: record[name] for name in expected}
    yield equal("adapted teacher's record", expected, found, adaptation.PROVENANCE)

"""The checkpoint a run was taught by: where it lies here, and how it was adapted."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness import adaptation, folder, places
from harness.audit.recorded import Recorded
from harness.audit.verdicts import Claim, equal, unchecked
from harness.errors import HarnessError
from harness.files import sha256_file
from harness.identity import each
from harness.project import Project
from harness.schemas import read_record


def find(
    project: Project, run: Path, identity: Mapping[str, Any], provenance: Mapping[str, Any]
) -> tuple[Path | None, ...]:
    """Each teacher's file: where it was, or in a run beside this one or in the project."""
    teachers, paths = each(identity["teacher"]), each(provenance["paths"].get("teacher"))
    pairs = zip_longest(teachers, paths[: len(teachers)])
    return tuple(_find(project, run, teacher["sha256"], path) for teacher, path in pairs)


def _find(project: Project, run: Path, sha256: str, path: str | None) -> Path | None:
    recorded = Path(path or "/none")
    if recorded.is_file() and not recorded.is_symlink():
        return recorded
    for home in dict.fromkeys((run.parent, project.runs)):
        for completed in sorted(home.glob(f"*/{folder.COMPLETED}")):
            if completed.parent != run and _result(completed.parent) == sha256:
                return completed.with_name(folder.MODEL)
    return None


def _result(run: Path) -> object:
    """The digest a run records of its checkpoint; None where its record is not valid."""
    try:
        checkpoint: Any = folder.completed(run)["checkpoint"]
    except HarnessError:
        return None
    return checkpoint["sha256"]


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
    mounted = Path(run.provenance["paths"]["mounts"].get(places.TEACHER_FILE, "/none"))
    again = adaptation.place(run.project, decided) / folder.MODEL
    path = next((p for p in (mounted, again) if p.is_file() and not p.is_symlink()), None)
    if path is None:
        yield unchecked("adapted teacher", "is not on this machine; the same launch makes it again")
        return
    yield equal("adapted teacher", recorded["output_sha256"], sha256_file(path), str(path.parent))
    record = read_record(path.with_name(adaptation.PROVENANCE), "teacher")
    expected = {**decided, "output_sha256": recorded["output_sha256"]}
    found = {name: record[name] for name in expected}
    yield equal("adapted teacher's record", expected, found, adaptation.PROVENANCE)

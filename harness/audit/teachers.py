"""Where the checkpoint a run was taught by lies on this machine."""

from pathlib import Path
from typing import Any

from harness import folder, places
from harness.errors import HarnessError
from harness.project import Project


def find(project: Project, run: Path, sha256: str, provenance: dict[str, Any]) -> Path | None:
    """The teacher's file: where it was, or in a run beside this one or in the project."""
    recorded = Path(provenance["paths"]["mounts"].get(places.TEACHER_FILE, "/none"))
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

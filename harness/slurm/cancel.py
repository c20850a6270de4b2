"""Taking launches back from Slurm."""

from collections.abc import Sequence
from pathlib import Path

from harness.errors import Refused
from harness.project import Project
from harness.provenance import now
from harness.slurm import commands, files
from harness.status import CANCELLED


def cancel(project: Project, names: Sequence[str], fault: files.Fault) -> list[tuple[str, Path]]:
    """Cancel the jobs that wait or run for `names`, names of run folders or numbers of jobs.

    `fault` is told of records that are none. Raises Refused where there is no job for a name.
    """
    submitted = list(files.unfinished(project, fault))
    alive = commands.alive([one.job for one in submitted])
    found: dict[str, Path] = {}
    for name in names:
        mine = [one for one in submitted if name in (one.run.name, one.job) and one.job in alive]
        if not mine:
            raise Refused(f"{name}: no job of this root waits or runs for it; see harness status")
        found |= {one.job: one.run for one in mine}
    commands.cancel(list(found))
    for job in found:
        files.Outcome(143, CANCELLED, False, now()).publish(project, job)
    return list(found.items())

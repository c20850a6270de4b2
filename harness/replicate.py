"""A recorded launch, run again in a fresh folder from pins alone, and compared."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import checkpoint, folder
from harness.audit.pins import recorded_choices
from harness.audit.teachers import find
from harness.difference import Difference, difference
from harness.errors import Refused
from harness.identity import differences
from harness.launch import Launch
from harness.plan import Choices
from harness.project import Project
from harness.run import INTERRUPTED, PROGRESS, Progress, TrainingFailed, read_progress, train
from harness.schemas import read_record

# What may differ in a replica's identity: it is then the same launch on another base or by
# another version of this harness, and the comparison says so.
MAY_DIFFER = ("environment/base", "harness")


def choices(project: Project, run: Path, name: str | None = None) -> Choices:
    """What the recorded launch in `run` chose, with a run folder that is not there yet.

    Raises Refused where `run` holds no valid launch, or its teacher is not on this machine.
    """
    identity: Any = read_record(run / folder.IDENTITY, "identity")
    provenance: Any = read_record(run / folder.PROVENANCE, "provenance")
    found = find(project, run, identity, provenance)
    teachers = tuple(path for path in found if path is not None)
    if len(teachers) < len(found):
        raise Refused(f"{run}: its teacher's checkpoint is not on this machine")
    if name is not None and (project.runs / name).exists():
        raise Refused(f"{project.runs / name}: is there already; choose another --name")
    recorded = recorded_choices(identity, teachers)
    return replace(recorded, name=name or _fresh(project, f"{run.name}-replica"))


def _fresh(project: Project, name: str) -> str:
    """`name`, or with the first number that makes a folder of it that is not there."""
    number, found = 1, name
    while (project.runs / found).exists():
        number += 1
        found = f"{name}-{number}"
    return found


def same_launch(run: Path, launch: Launch) -> None:
    """Raises Refused unless `launch` is the one recorded in `run`, base and harness aside."""
    recorded = read_record(run / folder.IDENTITY, "identity")
    fields = differences(recorded, launch.identity.document)
    other = [
        field for field in fields if not any(field.startswith(allowed) for allowed in MAY_DIFFER)
    ]
    if other:
        raise Refused(
            f"{run}: today's pins give another launch (differs in {', '.join(other[:4])}); "
            "use the version of this harness that made it"
        )


def replicate(
    run: Path, launch: Launch, on_progress: Callable[[Progress], None], steps: int | None = None
) -> Difference:
    """Train `launch`, whose folder is fresh, and compare it with the recorded `run`.

    With `steps`, training is stopped once it is past that step and compared up to it. Raises
    Refused where `run` is not complete and all of it was asked for.
    """
    same_launch(run, launch)
    if steps is None:
        folder.completed(run)
    try:
        train(launch, on_progress, stop_after=steps)
    except TrainingFailed as error:
        reached = read_progress(launch.plan.run / folder.OUTPUT / PROGRESS)
        asked = steps is not None and reached is not None and reached.step > steps
        if error.exit_code not in INTERRUPTED or not asked:
            raise

    def compare(first: Path, second: Path) -> checkpoint.Comparison:
        return checkpoint.compare(launch.project, launch.environment, first, second)

    return difference(run, launch.plan.run, compare, steps)

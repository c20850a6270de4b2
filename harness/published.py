"""Published figures beside all that was measured of a run, in training and by evaluations."""

from pathlib import Path
from typing import Any

from harness import evaluation, folder
from harness.errors import Refused
from harness.papers import Comparison, load, while_training
from harness.project import Project
from harness.schemas import read_record


def of_run(project: Project, run: Path) -> tuple[Comparison, ...]:
    """The figures of a run's model beside its own; none for a run without valid records.

    What an evaluation measured counts over what the trainer measured on the way.
    """
    try:
        identity = read_record(run / folder.IDENTITY, "identity")
        metrics: Any = folder.completed(run)["metrics"]
    except Refused:
        return ()
    found = {**while_training(metrics), **evaluation.measured(project, run)}
    return load(project.source).compare(identity, found)

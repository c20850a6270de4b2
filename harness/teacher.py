"""A launch's teacher as the user gives it: a checkpoint, or a finished run of the right family."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import folder
from harness.errors import Refused
from harness.files import resolve_inside
from harness.project import Project
from harness.recipes import Recipe
from harness.schemas import read_record

WEIGHTS = ("raw", "ema")


@dataclass(frozen=True)
class Teacher:
    """The checkpoint a student learns from, `run` the finished run whose result it is.

    `weights` says which of its weights: `raw`, of the last step, or `ema`, their averages.
    """

    file: Path
    run: Path | None
    weights: str

    @property
    def missing(self) -> tuple[str, ...]:
        """What is not there yet, a line each; a look at names only."""
        if self.run is not None and not (self.run / folder.COMPLETED).exists():
            return (f"{self.run} is not finished; run its train command again",)
        return () if self.file.exists() else (f"{self.file} does not exist; train it first",)


def find(project: Project, recipe: Recipe, given: Path, weights: str | None = None) -> Teacher:
    """The teacher at `given`: a file, or a run's folder or result, inside the root.

    Only small records are read. Raises Refused for a run of another family or dataset, and for
    a choice of weights that the recipe's trainer cannot honour.
    """
    chosen = weights or "raw"
    if chosen not in WEIGHTS:
        raise Refused(f"teacher weights {chosen}: unknown; one of {', '.join(WEIGHTS)}")
    if chosen != "raw" and "transformation" not in recipe.fields:
        raise Refused(
            f"teacher weights {chosen}: {recipe.model} reads its teacher's file itself, "
            "and takes the raw ones"
        )
    path = resolve_inside(project.root, given)
    if path.is_dir():
        run: Path | None = path
    else:
        beside = path.name == folder.MODEL and (path.parent / folder.IDENTITY).exists()
        run = path.parent if beside else None
    if run is None:
        return Teacher(path, None, chosen)
    check_run(run, recipe)
    return Teacher(run / folder.MODEL, run, chosen)


def check_run(run: Path, recipe: Recipe) -> None:
    """Raises Refused unless the launch in `run` may teach `recipe`, by its own record."""
    if not (run / folder.IDENTITY).exists():
        raise Refused(f"teacher {run}: holds no run (no {folder.IDENTITY}); give a file or a run")
    identity: Any = read_record(run / folder.IDENTITY, "identity")
    taught = identity["recipe"]
    family, wanted = taught["fields"].get("family"), recipe.fields["teacher_family"]
    if family != wanted:
        what = "can teach nothing" if family is None else f"is of family {family}"
        raise Refused(
            f"teacher {run}: a {taught['model']} run {what}; {recipe.model} needs {wanted}"
        )
    if identity["data"]["key"] != recipe.data:
        raise Refused(
            f"teacher {run}: was trained on {identity['data']['key']}; "
            f"{recipe.model} here learns from {recipe.data}"
        )

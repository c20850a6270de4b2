"""A launch's teachers as the user gives them: checkpoints, or finished runs of the right family.

Most students have one teacher; an ensemble's have several, told apart by their families.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import folder, places
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
    `family` is told of one among several only.
    """

    file: Path
    run: Path | None
    weights: str
    family: str | None = None

    @property
    def target(self) -> str:
        """Where the trainer finds it in the sandbox."""
        return places.teacher_file(self.family)

    @property
    def missing(self) -> tuple[str, ...]:
        """What is not there yet, a line each; a look at names only."""
        if self.run is not None and not (self.run / folder.COMPLETED).exists():
            return (f"{self.run} is not finished; run its train command again",)
        return () if self.file.exists() else (f"{self.file} does not exist; train it first",)

    def record(self) -> dict[str, object]:
        """As `plan --json` shows it."""
        named = {} if self.family is None else {"family": self.family}
        run = self.run and str(self.run)
        return {**named, "file": str(self.file), "run": run, "weights": self.weights}


def find_all(
    project: Project, recipe: Recipe, given: Sequence[Path], weights: str | None = None
) -> tuple[Teacher, ...]:
    """The recipe's teachers at `given`, in the order of its families. Raises as `find` does."""
    families = recipe.teacher_families
    if len(given) != len(families):
        raise Refused(
            f"{recipe.model}: {len(given)} teachers were given, it has {len(families)}: "
            f"{', '.join(families)}; give --teacher once for each, in this order"
        )
    if len(families) == 1:
        return (find(project, recipe, given[0], weights),)
    pairs = zip(given, families, strict=True)
    return tuple(find(project, recipe, path, weights, family) for path, family in pairs)


def find(
    project: Project,
    recipe: Recipe,
    given: Path,
    weights: str | None = None,
    family: str | None = None,
) -> Teacher:
    """The teacher at `given`: a file, or a run's folder or result, inside the root.

    `family` names one among several. Only small records are read. Raises Refused for a run of
    another family or dataset, and for a choice of weights that the recipe's trainer cannot honour.
    """
    own = recipe.fields.get("teacher_weights", "raw")
    chosen = weights or own
    if chosen not in WEIGHTS:
        raise Refused(f"teacher weights {chosen}: unknown; one of {', '.join(WEIGHTS)}")
    if chosen != own and "transformation" not in recipe.fields:
        raise Refused(
            f"teacher weights {chosen}: {recipe.model} reads its teacher's file itself, "
            f"and takes the {own} ones"
        )
    path = resolve_inside(project.root, given)
    if path.is_dir():
        run: Path | None = path
    else:
        beside = path.name == folder.MODEL and (path.parent / folder.IDENTITY).exists()
        run = path.parent if beside else None
    if run is None:
        return Teacher(path, None, chosen, family)
    check_run(run, recipe, family)
    return Teacher(run / folder.MODEL, run, chosen, family)


def check_run(run: Path, recipe: Recipe, family: str | None = None) -> None:
    """Raises Refused unless the launch in `run` may teach `recipe`, by its own record.

    `family` is the one wanted of a recipe that has several.
    """
    if not (run / folder.IDENTITY).exists():
        raise Refused(f"teacher {run}: holds no run (no {folder.IDENTITY}); give a file or a run")
    identity: Any = read_record(run / folder.IDENTITY, "identity")
    taught = identity["recipe"]
    found, wanted = taught["fields"].get("family"), family or recipe.fields["teacher_family"]
    if found != wanted:
        what = "can teach nothing" if found is None else f"is of family {found}"
        raise Refused(
            f"teacher {run}: a {taught['model']} run {what}; {recipe.model} needs {wanted}"
        )
    if identity["data"]["key"] != recipe.data:
        raise Refused(
            f"teacher {run}: was trained on {identity['data']['key']}; "
            f"{recipe.model} here learns from {recipe.data}"
        )

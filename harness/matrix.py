"""Many launches at once: recipes x datasets x seeds, each student after its teachers."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from harness.chain import chain
from harness.errors import Refused
from harness.files import open_plain
from harness.folder import COMPLETED
from harness.plan import Choices, Plan, plan
from harness.project import Project
from harness.recipes import Catalogue, load
from harness.schemas import validate

MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One launch, and the run folders of the teachers it waits for."""

    plan: Plan
    after: tuple[Path, ...]

    @property
    def complete(self) -> bool:
        """Whether its run folder says it is; a launch of it checks that."""
        return (self.plan.run / COMPLETED).exists()


def entries(project: Project, launches: Iterable[Choices]) -> list[Entry]:
    """Plans in an order in which every teacher comes before its students, each run once.

    Teachers that were not asked for are added. Raises Refused for a launch that is no recipe.
    """
    catalogue = load(project.source)
    found: dict[Path, Entry] = {}
    for choices in launches:
        _add(project, catalogue, choices, found)
    return list(found.values())


def _add(
    project: Project, catalogue: Catalogue, choices: Choices, found: dict[Path, Entry]
) -> Entry:
    recipe = catalogue.recipe(choices.model, choices.dataset, choices.profile)
    after: tuple[Path, ...] = ()
    if catalogue.teachers(recipe) and not choices.teachers:
        before, choices = chain(project, choices)
        for one in before:
            _add(project, catalogue, one.choices, found)
        after = tuple(one.run for one in before)
    planned = plan(project, choices, catalogue)
    return found.setdefault(planned.run, Entry(planned, after))


def read(project: Project, file: Path, template: Choices) -> list[Choices]:
    """The launches that a matrix file (JSON or YAML) names; all else is `template`'s.

    Raises Refused where it does not fit its schema, or names what is no recipe.
    """
    try:
        with open_plain(file) as opened:
            text = opened.read(MAX_BYTES + 1)
        value: Any = None if len(text) > MAX_BYTES else yaml.safe_load(text)
    except FileNotFoundError as error:
        raise Refused(f"{file}: not found") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Refused(f"{file}: neither JSON nor YAML ({' '.join(str(error).split())})") from error
    validate(value, "matrix", str(file))
    catalogue = load(project.source)
    profile = value.get("profile", template.profile)
    models = catalogue.models() if value["recipes"] == "all" else value["recipes"]
    return [
        replace(template, model=model, dataset=dataset, profile=profile, seed=seed)
        for model in models
        for dataset in _datasets(catalogue, model, value.get("datasets"), str(file))
        for seed in value["seeds"]
    ]


def every(project: Project, template: Choices) -> list[Choices]:
    """A launch of each recipe."""
    pairs = load(project.source).pairs()
    return [replace(template, model=model, dataset=dataset) for model, dataset in pairs]


def _datasets(
    catalogue: Catalogue, model: str, wanted: list[str] | None, where: str
) -> tuple[str, ...]:
    have = catalogue.datasets(model)
    if wanted is None:
        return have
    for dataset in wanted:
        if dataset not in catalogue.tables["datasets"]:
            raise Refused(f"{where}: dataset {dataset}: unknown")
    both = tuple(dataset for dataset in have if dataset in wanted)
    if not both:
        raise Refused(f"{where}: {model}: has no recipe on {', '.join(wanted)}")
    return both

"""Many launches at once: recipes x datasets x seeds, each student after its teachers."""

import re
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
from harness.text import short

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
        value: Any = None if len(text) > MAX_BYTES else yaml.load(text, _Loader)  # noqa: S506
    except FileNotFoundError as error:
        raise Refused(f"{file}: not found") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Refused(
            f"{file}: neither JSON nor YAML ({short(' '.join(str(error).split()))})"
        ) from error
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


class _Loader(yaml.SafeLoader):
    """YAML that says what it seems to: no key twice, no alias, no tag, whole numbers in digits.

    YAML 1.1 would also take 010 (eight), 1:30 (ninety) and 1_0 for whole numbers.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None) is not None:
            raise yaml.YAMLError(f"line {event.start_mark.line + 1}: has an alias or a tag")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key in (key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key in seen:
                raise yaml.YAMLError(f"key {key[:40]!r} stands twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


_INTEGER, _MERGE = "tag:yaml.org,2002:int", "tag:yaml.org,2002:merge"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in forms if tag not in (_INTEGER, _MERGE)]
    for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _INTEGER, re.compile(r"(?:0|-?[1-9][0-9]{0,15})\Z"), list("-0123456789")
)


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

"""The names by which parts of `recipes.json` refer to each other: each must lead somewhere.

A JSON Schema cannot say this, and a name with a typing error would silently change nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from harness.sources import OWN

Reference = tuple[str, str, Collection[str]]  # the field, the name in it, the names there are
_WHOLE = ("title", "source", "overrides", "datasets")  # what a model has, or inherits


def faults(tables: Mapping[str, Any]) -> Iterator[str]:
    """Each name that leads nowhere or in a circle, as `field: what is wrong`."""
    for field, name, known in _references(tables):
        if name not in known:
            yield f"{field}: {name}: unknown; one of {', '.join(known)}"
    for model, entry in tables["models"].items():
        for part in _WHOLE:
            if part not in entry and "inherits" not in entry:
                yield f"models/{model}: has no {part}, and inherits none"
    parents = {
        name: {entry["inherits"]} for name, entry in tables["models"].items() if "inherits" in entry
    }
    used = {name: set(_fragments(lines)) for name, lines in tables["fragments"].items()}
    for table, graph in (("models", parents), ("fragments", used)):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            yield f"{table}: {' of '.join(error.args[1])}: a circle"


def _references(tables: Mapping[str, Any]) -> Iterator[Reference]:
    models, datasets, fragments = (tables[name] for name in ("models", "datasets", "fragments"))
    places = {
        "models": models,
        "datasets": datasets,
        "sources": dict.fromkeys((*tables["sources"], *OWN)),
    }
    for name, entry in models.items():
        field = f"models/{name}"
        if "inherits" in entry:
            yield f"{field}/inherits", entry["inherits"], models
        if "source" in entry:
            yield f"{field}/source", entry["source"], tables["sources"]
        for on_dataset in entry.get("datasets", {}):
            yield f"{field}/datasets", on_dataset, datasets
    for name, model in tables["families"].items():
        yield f"families/{name}", model, models
    for name, options in tables["ambiguous"].items():
        yield from ((f"ambiguous/{name}", option, models) for option in options)
    for table in ("deviations", "mismatches"):
        for number, entry in enumerate(tables[table]):
            for kind, names in entry["applies"].items():
                field = f"{table}/{number}/applies/{kind}"
                yield from ((field, name, places[kind]) for name in names)
    for profile, layers in tables["profiles"].items():
        for kind, known in places.items():
            yield from (
                (f"profiles/{profile}/{kind}", name, known) for name in layers.get(kind, {})
            )
    for field, lines in _lists("", {k: tables[k] for k in ("fragments", "models", "profiles")}):
        yield from ((field, name, fragments) for name in _fragments(lines))


def _lists(field: str, value: object) -> Iterator[tuple[str, list[object]]]:
    """Every list below `value`, with where it stands."""
    if isinstance(value, list):
        yield field.removeprefix("/"), value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _lists(f"{field}/{name}", part)


def _fragments(lines: list[Any]) -> Iterator[str]:
    return (line[1:] for line in lines if isinstance(line, str) and line.startswith("@"))

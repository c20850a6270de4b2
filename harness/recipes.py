"""Recipes as data: which settings a model has on a dataset, and its override list.

`recipes.json` decides everything; nothing here names a model. A recipe is resolved in layers,
later ones winning: defaults, dataset, model, model on that dataset, profile. Its override list
is the published one (fragments expanded, fields and placeholders filled), then the deviations
an upstream needs to run at all, then the profile's declared changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import references
from harness.errors import Refused
from harness.schemas import read_record

Fields = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Deviation:
    """A declared difference from the published override list."""

    name: str
    overrides: tuple[str, ...]
    reason: str
    evidence: str
    entrypoint: str | None = None


@dataclass(frozen=True)
class Recipe:
    """One model on one dataset under one profile, before a user's launch choices."""

    model: str
    title: str
    dataset: str
    profile: str
    source: str
    upstream: str
    entrypoint: str
    packages: tuple[str, ...]
    adapters: tuple[str, ...]
    config_dir: str
    config_name: str
    environment: str
    data_layout: str
    data: str
    processed: str
    tokenizer: str
    tokenizer_revision: str
    fields: Fields
    choices: Fields
    variables: Mapping[str, str]
    published: tuple[str, ...]
    listed: tuple[str, ...]
    deviations: tuple[Deviation, ...]
    additions: tuple[str, ...]

    def number(self, name: str) -> int:
        """The whole-number field `name`."""
        return int(self.fields[name])

    @property
    def teacher_families(self) -> tuple[str, ...]:
        """The family of each of its teachers; an ensemble's are written with commas between."""
        given = str(self.fields.get("teacher_family", ""))
        return tuple(given.split(",")) if given else ()

    def record(self) -> dict[str, object]:
        """The recipe as JSON: what `recipe.json` and the identity hold."""
        return {
            "model": self.model,
            "dataset": self.dataset,
            "profile": self.profile,
            "source": self.source,
            "upstream": self.upstream,
            "entrypoint": self.entrypoint,
            # Absent where none: the built-in trainers' records are older than adapters.
            **({"adapters": list(self.adapters)} if self.adapters else {}),
            "config": f"{self.config_dir}/{self.config_name}",
            "environment": self.environment,
            "data": self.data,
            "tokenizer": {"name": self.tokenizer, "revision": self.tokenizer_revision},
            "fields": dict(self.fields),
            "variables": dict(self.variables),
            "published": list(self.published),
            "launched": list(self.listed),
            "deviations": [
                {"name": d.name, "overrides": list(d.overrides)} for d in self.deviations
            ],
            "profile_additions": list(self.additions),
        }

    def overrides(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """The override list to launch with, `values` filling the launch placeholders."""
        return overrides(self.record(), values)


@dataclass(frozen=True)
class Catalogue:
    """All recipes, profiles and deviations: the parsed `recipes.json`."""

    tables: Mapping[str, Any]

    def models(self) -> tuple[str, ...]:
        """Every model's name, in the file's order."""
        return tuple(self.tables["models"])

    def datasets(self, model: str) -> tuple[str, ...]:
        """The datasets `model` has a recipe on."""
        entries = self._model(model)["datasets"]
        return tuple(name for name, entry in entries.items() if "unsupported" not in entry)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every (model, dataset) that has a recipe."""
        for model in self.models():
            for dataset in self.datasets(model):
                yield model, dataset

    def teachers(self, recipe: Recipe) -> tuple[str, ...]:
        """The models whose runs teach `recipe`, in its order; none where it learns from none."""
        return tuple(self.tables["families"][family] for family in recipe.teacher_families)

    def profiles(self) -> Mapping[str, str]:
        """Each profile's name and what it is for."""
        return {name: entry["description"] for name, entry in self.tables["profiles"].items()}

    def recipe(self, model: str, dataset: str, profile: str = "paper") -> Recipe:
        """Resolve a recipe. Raises Refused for an unknown or unsupported combination."""
        entry, on_dataset = self._model(model), self._on_dataset(model, dataset)
        names = self.tables["datasets"][dataset]
        changes = self._changes(profile, model, dataset, entry["source"])
        paper = _merged([self.tables["defaults"], names, entry, on_dataset])
        launch = _merged([paper, changes])
        fixed = {"name": entry["source"], **self.tables["sources"][entry["source"]]}
        source = {**fixed, **_only(entry, "entrypoint"), **changes.get("source", {})}
        deviations = self._deviations(model, dataset, source["name"])
        entrypoint = next((d.entrypoint for d in deviations if d.entrypoint), source["entrypoint"])
        data = {"key": dataset, **names, **changes.get("data", {})}
        template = tuple(self._expand(on_dataset.get("overrides", entry["overrides"])))
        for key in changes.get("set", {}).keys() - {o.partition("=")[0] for o in template}:
            raise Refused(f"profile {profile}: sets {key}, which is not in the list of {model}")
        return Recipe(
            model=model,
            title=entry["title"],
            dataset=dataset,
            profile=profile,
            source=source["name"],
            upstream=entry["source"],
            entrypoint=entrypoint,
            packages=tuple(source.get("packages", ())),
            adapters=_adapters(entrypoint, source, changes),
            config_dir=source["config_dir"],
            config_name=source["config_name"],
            environment=source["environment"],
            data_layout=source["data_layout"],
            data=data["key"],
            processed=data["processed"],
            tokenizer=data["tokenizer"],
            tokenizer_revision=data["tokenizer_revision"],
            fields=launch["fields"],
            choices=launch["choices"],
            variables=changes.get("variables", {}),
            published=tuple(fill(o, _texts(paper["fields"])) for o in template),
            listed=tuple(
                fill(_changed(o, changes.get("set", {})), _texts(launch["fields"]))
                for o in template
            ),
            deviations=deviations,
            additions=tuple(
                fill(o, _texts(launch["fields"])) for o in self._expand(changes.get("append", []))
            ),
        )

    def _model(self, model: str) -> Mapping[str, Any]:
        if model in self.tables["ambiguous"]:
            options = " or ".join(self.tables["ambiguous"][model])
            raise Refused(f"model {model}: alone is not a recipe; use {options}")
        if model not in self.tables["models"]:
            raise Refused(f"model {model}: unknown; one of {', '.join(self.models())}")
        entry: dict[str, Any] = dict(self.tables["models"][model])
        if "inherits" in entry:
            parent = self._model(entry["inherits"])
            entry = {**parent, **entry, **_merged([parent, entry])}
        return entry

    def _on_dataset(self, model: str, dataset: str) -> Mapping[str, Any]:
        entries = self._model(model)["datasets"]
        if dataset not in self.tables["datasets"]:
            known = ", ".join(self.tables["datasets"])
            raise Refused(f"dataset {dataset}: unknown; one of {known}")
        entry: Mapping[str, Any] = entries.get(dataset, {"unsupported": "no such recipe"})
        if "unsupported" in entry:
            raise Refused(f"{model} on {dataset}: {entry['unsupported']}")
        return entry

    def _changes(self, name: str, model: str, dataset: str, source: str) -> dict[str, Any]:
        if name not in self.tables["profiles"]:
            raise Refused(f"profile {name}: unknown; one of {', '.join(self.tables['profiles'])}")
        return _merged(
            list(self._layers(name, model, dataset, source)),
            parts=(
                *("source", "data", "fields", "choices"),
                *("adapters", "variables", "set", "append"),
            ),
        )

    def _layers(
        self, profile: str, model: str, dataset: str, source: str
    ) -> Iterator[Mapping[str, Any]]:
        """What a profile says of a launch: what it extends first, the most particular last."""
        layers = self.tables["profiles"][profile]
        if "extends" in layers:
            yield from self._layers(layers["extends"], model, dataset, source)
        on_model = layers.get("models", {}).get(model, {})
        yield layers.get("every", {})
        yield layers.get("datasets", {}).get(dataset, {})
        yield layers.get("sources", {}).get(source, {})
        yield on_model
        yield on_model.get("datasets", {}).get(dataset, {})

    def mismatches(self, model: str, dataset: str) -> tuple[Mapping[str, Any], ...]:
        """Where the published setting is not that of the upstream's own scripts; it stands."""
        here = {"models": model, "datasets": dataset}
        return tuple(
            entry
            for entry in self.tables["mismatches"]
            if all(here[kind] in names for kind, names in entry["applies"].items())
        )

    def _deviations(self, model: str, dataset: str, source: str) -> tuple[Deviation, ...]:
        here = {"models": model, "datasets": dataset, "sources": source}
        return tuple(
            Deviation(
                d["name"],
                tuple(d["overrides"]),
                d["reason"],
                d["evidence"],
                d.get("entrypoint"),
            )
            for d in self.tables["deviations"]
            if all(here[kind] in names for kind, names in d["applies"].items())
        )

    def _expand(self, overrides: list[str]) -> Iterator[str]:
        for override in overrides:
            if override.startswith("@"):
                yield from self._expand(self.tables["fragments"][override[1:]])
            else:
                yield override


def overrides(record: Mapping[str, Any], values: Mapping[str, str]) -> tuple[str, ...]:
    """The override list that a recipe's record renders to."""
    needed = (override for deviation in record["deviations"] for override in deviation["overrides"])
    whole = (*record["launched"], *needed, *record["profile_additions"])
    return tuple(fill(override, values) for override in whole)


def load(source: Path) -> Catalogue:
    """The catalogue of the harness tree at `source`, its schema and its own names checked."""
    path = source / "recipes.json"
    tables = read_record(path, "recipes")
    for fault in references.faults(tables):
        raise Refused(f"{path}: {fault}")
    return Catalogue(tables)


def number(value: float) -> str:
    """A number as it stands in an override list."""
    return format(value, ".12g")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` that `values` knows; others stay for a later filling."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def _texts(fields: Fields) -> dict[str, str]:
    return {n: v if isinstance(v, str) else number(v) for n, v in fields.items()}


def _changed(override: str, changes: Mapping[str, str]) -> str:
    key = override.partition("=")[0]
    return f"{key}={changes[key]}" if key in changes else override


def _adapters(entrypoint: str, *layers: Mapping[str, Any]) -> tuple[str, ...]:
    """The adapters that the layers declare, and the program that trains where it is one."""
    declared = {name for layer in layers for name in layer.get("adapters", [])}
    folder, _, name = entrypoint.partition("/")
    return tuple(sorted({*declared, *([name] if folder == "adapters" else [])}))


def _only(entry: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: entry[name] for name in names if name in entry}


def _merged(
    layers: list[Mapping[str, Any]], parts: tuple[str, ...] = ("fields", "choices")
) -> dict[str, Any]:
    """Merge the named parts of each layer, later ones winning; lists are joined."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for part, value in _only(layer, *parts).items():
            if isinstance(value, list):
                merged[part] = merged.get(part, []) + value
            else:
                merged[part] = {**merged.get(part, {}), **value}
    return merged

"""What `pins.json` says: every dataset and model by revision, and the digests known of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import Refused
from harness.schemas import read_record

Kind = Literal["hub", "embedded"]
# How text becomes a processed set: rows of one length, or streams with their sentences.
ROWS, STORES = "document_eos_continuous_bos_eos", "sentence_stores"


@dataclass(frozen=True)
class Split:
    """A processed split: which documents of which raw files make it up."""

    name: str
    expression: str
    files: tuple[str, ...]
    documents: int

    def paths(self, raw: Path) -> list[Path]:
        """Its raw files below the folder `raw`, in the order of their documents."""
        return sorted(path for pattern in self.files for path in raw.glob(pattern))


@dataclass(frozen=True)
class Generator:
    """How an embedded corpus is written."""

    style: str
    version: int
    seed: int
    documents: int


@dataclass(frozen=True)
class ByName:
    """How an upstream that loads by bare names finds its raw data and tokenizer.

    `splits` gives each processed split the name it has in the raw dataset.
    """

    dataset: str
    tokenizer: str
    splits: Mapping[str, str]


@dataclass(frozen=True)
class Dataset:
    """A dataset: where its text comes from and how it is processed."""

    key: str
    kind: Kind
    repo: str
    revision: str
    conversion: str | None
    config: str
    shards: int | None
    files: Mapping[str, str | None]
    splits: tuple[Split, ...]
    detokenizer: str | None
    tokenizer: str
    models: tuple[str, ...]
    sequence_length: int
    processed: str
    training_name: str
    training_files: Mapping[str, str]
    by_name: ByName | None
    required_free: int
    generator: Generator | None
    packing: str = ROWS


@dataclass(frozen=True)
class Ids:
    """A tokenizer's vocabulary size and the ids that begin and end a row."""

    vocabulary: int
    bos: int
    eos: int


@dataclass(frozen=True)
class Model:
    """A model repository: the files its tokenizer needs, and weights, fetched only on demand."""

    key: str
    kind: Kind
    repo: str
    revision: str
    files: Mapping[str, str | None]
    weights: Mapping[str, str | None]
    family: str | None
    corpus: str | None
    ids: Ids | None


@dataclass(frozen=True)
class Raw:
    """A dataset repository that is fetched as it is, and not processed."""

    key: str
    repo: str
    revision: str
    files: Mapping[str, str | None]


@dataclass(frozen=True)
class Pins:
    """The parsed `pins.json`."""

    datasets: Mapping[str, Dataset]
    models: Mapping[str, Model]
    repositories: Mapping[str, Raw]

    def dataset(self, key: str) -> Dataset:
        """The dataset `key`. Raises Refused for an unknown one."""
        if key not in self.datasets:
            raise Refused(f"dataset {key}: not pinned; one of {', '.join(self.datasets)}")
        return self.datasets[key]

    @property
    def names(self) -> frozenset[str]:
        """Every key."""
        return frozenset([*self.datasets, *self.models, *self.repositories])

    def key(self, name: str, profile: str) -> str:
        """The key of a dataset by its training name and profile, or by the key itself.

        Raises Refused where none is pinned.
        """
        kind = "embedded" if profile == "smoke" else "hub"
        for key, dataset in self.datasets.items():
            if (dataset.training_name, dataset.kind) == (name, kind):
                return key
        return self.dataset(name).key

    def model(self, key: str) -> Model:
        """The model `key`. Raises Refused for an unknown one."""
        if key not in self.models:
            raise Refused(f"model repository {key}: not pinned; one of {', '.join(self.models)}")
        return self.models[key]


def load(source: Path) -> Pins:
    """The pins of the harness tree at `source`, checked against their schema."""
    record: Any = read_record(source / "pins.json", "pins")
    datasets = {key: _dataset(key, entry) for key, entry in record["datasets"].items()}
    models = {key: _model(key, entry) for key, entry in record["models"].items()}
    raw = {key: Raw(key=key, **entry) for key, entry in record.get("repositories", {}).items()}
    return Pins(datasets, models, raw)


def _dataset(key: str, entry: dict[str, Any]) -> Dataset:
    splits = (
        Split(name, part["expression"], tuple(part["files"]), part["documents"])
        for name, part in entry["splits"].items()
    )
    generator, by_name = entry.get("generator"), entry["training"].get("by_name")
    return Dataset(
        key=key,
        kind=entry["kind"],
        repo=entry.get("repo", key),
        revision=entry["revision"],
        conversion=entry.get("conversion"),
        config=entry["config"],
        shards=entry.get("shards"),
        files=entry["files"],
        splits=tuple(splits),
        detokenizer=entry.get("detokenizer"),
        packing=entry.get("packing", ROWS),
        tokenizer=entry["tokenizer"],
        models=(entry["tokenizer"], *entry.get("models", ())),
        sequence_length=entry["sequence_length"],
        processed=entry["processed"],
        training_name=entry["training"]["name"],
        training_files=entry["training"]["files"],
        by_name=ByName(**by_name) if by_name else None,
        required_free=entry.get("required_free", 0),
        generator=Generator(**generator) if generator else None,
    )


def _model(key: str, entry: dict[str, Any]) -> Model:
    return Model(
        key=key,
        kind=entry["kind"],
        repo=entry.get("repo", key),
        revision=entry["revision"],
        files=entry["files"],
        weights=entry.get("weights", {}),
        family=entry.get("family"),
        corpus=entry.get("corpus"),
        ids=Ids(entry["vocabulary"], entry["bos"], entry["eos"]) if "vocabulary" in entry else None,
    )


_EXPRESSION = re.compile(r"\w+(?:\[(-?\d+)?:(-?\d+)?\])?")


def document_range(expression: str, available: int) -> range:
    """The documents that a split expression (`train`, `train[:-100000]`) takes of `available`."""
    match = _EXPRESSION.fullmatch(expression)
    if match is None:
        raise Refused(f"split {expression!r}: not understood; write name or name[start:stop]")
    start, stop = (None if part is None else int(part) for part in match.groups())
    return range(*slice(start, stop).indices(available))

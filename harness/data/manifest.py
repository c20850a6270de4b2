"""The manifest of a processed set: what was asked for, what came out, and its files.

The manifest's digest leaves out the time of writing, so that two machines that process the same
text agree on it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.canonical import digest
from harness.data.pins import Dataset, Model
from harness.errors import Refused
from harness.files import sha256_file
from harness.json_files import publish_json
from harness.schemas import read_record

SCHEMA_VERSION = 1
PACKING_VERSION = 1  # of either packing


@dataclass(frozen=True)
class File:
    """A file of the set: path relative to the set's folder, size in bytes, SHA-256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class SplitCounts:
    """What a split came to."""

    documents: int
    sequences: int
    smallest_id: int
    largest_id: int


@dataclass(frozen=True)
class Manifest:
    """A processed set's contract and outcome."""

    contract: Mapping[str, Any]
    splits: Mapping[str, SplitCounts]
    files: tuple[File, ...]
    created: str

    @property
    def fingerprint(self) -> str:
        """The contract's digest."""
        return digest(self.contract)

    @property
    def dataset(self) -> str:
        """The dataset's key."""
        return str(self.contract["dataset"])

    @property
    def sequence_length(self) -> int:
        """Ids a row."""
        return int(self.contract["sequence_length"])

    def sha256(self) -> str:
        """The digest of everything but the time: equal wherever the same data was made."""
        return digest({name: value for name, value in self.record().items() if name != "created"})

    def record(self) -> dict[str, object]:
        """The manifest as JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "contract": dict(self.contract),
            "fingerprint": self.fingerprint,
            "splits": {name: asdict(counts) for name, counts in self.splits.items()},
            "files": [asdict(file) for file in self.files],
            "created": self.created,
        }


def contract(dataset: Dataset, model: Model) -> dict[str, object]:
    """The processing contract of a dataset with its tokenizer.

    Raises Refused where the model is pinned without a tokenizer's ids.
    """
    if model.ids is None:
        raise Refused(f"model {model.key}: pinned without vocabulary, bos and eos; add them")
    return {
        "schema_version": SCHEMA_VERSION,
        "dataset": dataset.key,
        "hub_id": dataset.repo,
        "revision": dataset.revision,
        "conversion_revision": dataset.conversion,
        "config": dataset.config,
        "tokenizer": model.repo,
        "tokenizer_revision": model.revision,
        "sequence_length": dataset.sequence_length,
        "splits": {split.name: split.expression for split in dataset.splits},
        "documents": {split.name: split.documents for split in dataset.splits},
        "vocabulary": model.ids.vocabulary,
        "bos": model.ids.bos,
        "eos": model.ids.eos,
        "detokenizer": dataset.detokenizer,
        "packing": dataset.packing,
        "packing_version": PACKING_VERSION,
    }


def inventory(folder: Path, known: Mapping[str, File]) -> tuple[File, ...]:
    """Every file below `folder` in path order; digests in `known` are not computed again."""
    files = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        files.append(known.get(name) or File(name, path.stat().st_size, sha256_file(path)))
    return tuple(sorted(files, key=lambda file: file.path))


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def publish(path: Path, manifest: Manifest) -> None:
    """Publish the manifest; the set it describes must already be in place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    publish_json(path, manifest.record())


def read(path: Path) -> Manifest:
    """The manifest in `path`. Raises Refused where it is absent, invalid or contradicts itself."""
    record: Any = read_record(path, "processed")
    splits = {name: SplitCounts(**counts) for name, counts in record["splits"].items()}
    files = tuple(File(**file) for file in record["files"])
    manifest = Manifest(record["contract"], splits, files, record["created"])
    if manifest.fingerprint != record["fingerprint"]:
        raise Refused(f"{path}: fingerprint is not that of its contract; prepare again")
    if list(files) != sorted(files, key=lambda file: file.path):
        raise Refused(f"{path}: files are not in path order; prepare again")
    return manifest


def differences(manifest: Manifest, folder: Path) -> list[str]:
    """What of the inventory is not there as said, by name and size; bytes are not read."""
    wanted = {file.path: file.size for file in manifest.files}
    found = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if not path.is_dir()
    }
    return [
        f"{folder / name}: {_difference(wanted.get(name), found.get(name))}"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name)
    ]


def _difference(wanted: int | None, found: int | None) -> str:
    if found is None:
        return "missing"
    if wanted is None:
        return "not in the manifest"
    return f"{found} bytes, the manifest says {wanted}"

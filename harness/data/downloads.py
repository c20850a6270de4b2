"""The record of everything fetched: `data/manifests/downloads.json`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.json_files import publish_json
from harness.schemas import read_record


@dataclass(frozen=True)
class Disk:
    """What the disk check saw, and whether it was overridden."""

    observed_free: int
    required_free: int
    below_threshold: bool
    override_requested: bool
    override_used: bool


@dataclass(frozen=True)
class FetchedFile:
    """A file of a snapshot: its place below data/, its size in bytes, its SHA-256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class FetchedDataset:
    """A fetched dataset: revisions, snapshot folders, rows and files a split."""

    repo: str
    revision: str
    conversion: str | None
    snapshots: tuple[str, ...]
    rows: Mapping[str, int]
    cache_files: Mapping[str, tuple[str, ...]]
    disk: Disk


@dataclass(frozen=True)
class Fetched:
    """A fetched repository that is kept as it is."""

    repo: str
    revision: str
    snapshot: str


@dataclass(frozen=True)
class Downloads:
    """Everything fetched, by pin."""

    datasets: Mapping[str, FetchedDataset] = field(default_factory=dict)
    models: Mapping[str, Fetched] = field(default_factory=dict)
    repositories: Mapping[str, Fetched] = field(default_factory=dict)
    files: Mapping[str, FetchedFile] = field(default_factory=dict)

    def publish(self, path: Path) -> None:
        """Write the record."""
        path.parent.mkdir(parents=True, exist_ok=True)
        publish_json(
            path,
            {
                "schema_version": 1,
                "datasets": {key: asdict(value) for key, value in self.datasets.items()},
                "models": {key: asdict(value) for key, value in self.models.items()},
                "repositories": {key: asdict(value) for key, value in self.repositories.items()},
                "files": [asdict(self.files[name]) for name in sorted(self.files)],
            },
        )


def read(path: Path) -> Downloads:
    """The record in `path`, empty where nothing was fetched. Raises Refused where it is invalid."""
    if not path.is_file():
        return Downloads()
    record: Any = read_record(path, "downloads")
    datasets = {
        key: FetchedDataset(
            **{
                **value,
                "snapshots": tuple(value["snapshots"]),
                "cache_files": {name: tuple(f) for name, f in value["cache_files"].items()},
                "disk": Disk(**value["disk"]),
            }
        )
        for key, value in record["datasets"].items()
    }
    models = {key: Fetched(**value) for key, value in record["models"].items()}
    raw = {key: Fetched(**value) for key, value in record["repositories"].items()}
    files = {file["path"]: FetchedFile(**file) for file in record["files"]}
    return Downloads(datasets, models, raw, files)


def digests(path: Path) -> dict[str, str]:
    """The SHA-256 of every file in the record, by its place below data/. Raises as `read` does."""
    return {name: file.sha256 for name, file in read(path).files.items()}

"""Fetching pinned repositories into the Hub cache, checked against the Hub's digests and ours."""

import fnmatch
import glob
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.data import downloads
from harness.data.digests import Digests
from harness.data.downloads import Disk, Downloads, Fetched, FetchedDataset, FetchedFile
from harness.data.expected import Expected
from harness.data.hub import Entry, Hub, Repository, link
from harness.data.locking import turn
from harness.data.pins import Dataset, Model, Pins, document_range
from harness.data.places import Places, hub_folder
from harness.data.progress import Progress
from harness.errors import Refused
from harness.files import publish_bytes

# Of a dataset read through its conversion, the repository itself gives its description only.
_DESCRIPTION = ("*.md", "*.json", "*.py")


@dataclass(frozen=True)
class Wanted:
    """Files of one repository: path patterns, and the digests pinned for some paths."""

    key: str
    repository: Repository
    patterns: tuple[str, ...]
    pinned: Mapping[str, str | None]
    optional: bool = False


@dataclass(frozen=True)
class Target:
    """One file to have."""

    wanted: Wanted
    entry: Entry


def of_dataset(dataset: Dataset) -> list[Wanted]:
    """What fetching a dataset brings, besides its models."""
    if dataset.kind != "hub":
        raise Refused(f"dataset {dataset.key}: embedded; nothing to fetch, prepare makes it")
    patterns = tuple(sorted({pattern for split in dataset.splits for pattern in split.files}))
    revision = dataset.conversion or dataset.revision
    data = Repository("dataset", dataset.repo, revision)
    wanted = [Wanted(dataset.key, data, patterns, dataset.files)]
    if dataset.conversion:
        described = Repository("dataset", dataset.repo, dataset.revision)
        wanted.append(Wanted(dataset.key, described, _DESCRIPTION, {}, optional=True))
    return wanted


def of_model(model: Model, *, weights: bool) -> Wanted:
    """What fetching a model repository brings: the tokenizer, and the weights if asked for."""
    if model.kind != "hub":
        raise Refused(f"model {model.key}: embedded; nothing to fetch, prepare makes it")
    files = {**model.files, **(model.weights if weights else {})}
    return _exactly(model.key, Repository("model", model.repo, model.revision), files)


def _exactly(key: str, repository: Repository, files: Mapping[str, str | None]) -> Wanted:
    """The files of these very names: `a[1].txt` is no pattern here."""
    return Wanted(key, repository, tuple(map(glob.escape, files)), files)


def wanted(pins: Pins, keys: Iterable[str]) -> list[Wanted]:
    """What the named datasets (with their models' tokenizers) and models (with weights) need."""
    found: dict[tuple[str, Repository], Wanted] = {}
    for key in keys:
        if key in pins.datasets:
            dataset = pins.dataset(key)
            parts = of_dataset(dataset)
            parts += [of_model(pins.model(name), weights=False) for name in dataset.models]
        elif key in pins.repositories:
            raw = pins.repositories[key]
            repository = Repository("dataset", raw.repo, raw.revision)
            parts = [_exactly(key, repository, raw.files)]
        else:
            parts = [of_model(pins.model(key), weights=True)]
        for part in parts:
            known = found.get((part.key, part.repository))
            if known is None or len(part.patterns) > len(known.patterns):
                found[(part.key, part.repository)] = part
    return list(found.values())


def targets(hub: Hub, part: Wanted) -> list[Target]:
    """The files that `part` stands for at its revision.

    Raises Refused where a pattern fits nothing.
    """
    entries = hub.files(part.repository)
    chosen: dict[str, Entry] = {}
    for pattern in part.patterns:
        fitting = [entry for entry in entries if fnmatch.fnmatchcase(entry.path, pattern)]
        if not fitting and not part.optional:
            raise Refused(f"{part.repository}: no file fits {pattern}; check pins.json")
        chosen |= {entry.path: entry for entry in fitting}
    return [Target(part, chosen[path]) for path in sorted(chosen)]


def remaining(places: Places, files: Iterable[Target]) -> int:
    """Bytes still to be downloaded."""
    total = 0
    for target in files:
        repository = target.wanted.repository
        folder = places.hub / hub_folder(repository.kind, repository.repo) / "blobs"
        blob, part = folder / target.entry.blob, folder / f"{target.entry.blob}.incomplete"
        if not blob.is_file():
            have = part.stat().st_size if part.is_file() else 0
            total += target.entry.size - (have if have <= target.entry.size else 0)
    return total


def required(places: Places, pins: Pins, files: Iterable[Target]) -> int:
    """Bytes that must be free: what is to come, or a dataset's `required_free` in proportion."""
    parts: dict[str, list[Target]] = {}
    for target in files:
        parts.setdefault(target.wanted.key, []).append(target)
    total = 0
    for key, targets in parts.items():
        left, size = remaining(places, targets), sum(target.entry.size for target in targets)
        asked = pins.datasets[key].required_free if key in pins.datasets else 0
        total += max(left, -(-asked * left // size)) if left else 0
    return total


def check_disk(
    places: Places,
    required: int,
    *,
    override: bool,
    free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
) -> Disk:
    """Refuse to begin what the disk cannot hold, unless told to.

    Raises Refused where less than `required` bytes are free and `override` is not set.
    """
    place = places.data
    while not place.exists():
        place = place.parent
    observed = free(place)
    below = observed < required
    if below and not override:
        raise Refused(
            f"{place}: {observed / 2**30:.1f} GiB free, {required / 2**30:.1f} GiB are needed; "
            "make room, or give --allow-low-disk"
        )
    return Disk(observed, required, below, override, below and override)


def fetch(
    hub: Hub, places: Places, parts: Iterable[Target], digests: Digests, progress: Progress
) -> dict[str, FetchedFile]:
    """Have every target in the cache, checked; returns each by its path below data/.

    Raises HarnessError at the first file that cannot be had as announced, Refused where the Hub
    has another than is pinned or was recorded by an earlier fetch: it gets no name then.
    """
    found, fetched = {}, downloads.digests(places.downloads)
    for target in parts:
        repository, entry = target.wanted.repository, target.entry

        def report(done: int, entry: Entry = entry, name: str = repository.repo) -> None:
            progress(f"{name} {entry.path}", done, entry.size)

        blob = hub.blob(repository, entry, places.hub, report)
        report(entry.size)
        sha256 = digests.of([blob])[blob]
        if entry.sha256 not in (None, sha256):  # it was here before, and changed since
            blob.unlink()
            raise Refused(
                f"{repository} {entry.path}: sha256 {sha256}, the Hub announced {entry.sha256}; "
                "the copy was removed, run again"
            )
        expected = _expected(places, target, fetched)
        _check_digest(target, expected, sha256)
        link(repository, entry, places.hub, blob)
        path = expected.recorded(entry.path)
        found[path] = FetchedFile(path, entry.size, sha256)
    return found


def check_listed(places: Places, files: Iterable[Target]) -> None:
    """Compare the digests that a listing tells with ours, before anything is fetched.

    Raises Refused as `fetch` does.
    """
    fetched = downloads.digests(places.downloads)
    for target in files:
        if target.entry.sha256 is not None:
            _check_digest(target, _expected(places, target, fetched), target.entry.sha256)


def _expected(places: Places, target: Target, fetched: Mapping[str, str]) -> Expected:
    repository = target.wanted.repository
    snapshot = places.snapshot(repository.kind, repository.repo, repository.revision)
    return Expected(places, snapshot, target.wanted.pinned, fetched)


def _check_digest(target: Target, expected: Expected, sha256: str) -> None:
    """Compare the digest of the Hub's file with the expected one."""
    name = target.entry.path
    if (wanted := expected.find(name)) in (None, sha256):
        return
    has = f"{target.wanted.repository} {name}: the Hub has sha256 {sha256}"
    if expected.pinned.get(name):
        raise Refused(f"{has}, pinned is {wanted}; check pins.json")
    raise Refused(
        f"{has}, the first fetch of this revision had {wanted}; to take the new one, "
        f"remove the entry of {expected.recorded(name)} from {expected.places.downloads}"
    )


def write_reference(places: Places, repository: Repository) -> None:
    """Let `main` stand for the revision, for those who load by bare name offline."""
    refs = places.hub / hub_folder(repository.kind, repository.repo) / "refs"
    refs.mkdir(parents=True, exist_ok=True)
    publish_bytes(refs / "main", repository.revision.encode())


def record(
    places: Places, pins: Pins, files: Mapping[str, FetchedFile], parts: list[Wanted], disk: Disk
) -> Downloads:
    """Add what was fetched to the record, publish and return it; one process at a time."""
    places.downloads.parent.mkdir(parents=True, exist_ok=True)
    with turn(places.downloads.parent):
        return _record(places, pins, files, parts, disk)


def _record(
    places: Places, pins: Pins, files: Mapping[str, FetchedFile], parts: list[Wanted], disk: Disk
) -> Downloads:
    known = downloads.read(places.downloads)
    datasets, models, raw = dict(known.datasets), dict(known.models), dict(known.repositories)
    for part in parts:
        repository = part.repository
        snapshot = places.snapshot(repository.kind, repository.repo, repository.revision)
        where = snapshot.relative_to(places.data).as_posix()
        if part.key in pins.repositories:
            raw[part.key] = Fetched(repository.repo, repository.revision, where)
        elif repository.kind == "model":
            models[part.key] = Fetched(repository.repo, repository.revision, where)
        else:
            dataset = pins.dataset(part.key)
            told = _disk(dataset, known.datasets.get(part.key), disk)
            datasets[part.key] = _fetched_dataset(places, dataset, told)
    result = replace(
        known, datasets=datasets, models=models, repositories=raw, files={**known.files, **files}
    )
    result.publish(places.downloads)
    return result


def _disk(dataset: Dataset, known: FetchedDataset | None, disk: Disk) -> Disk:
    """The disk check to record: not that of a fetch of nothing, and an override used stays."""
    same = known and (known.revision, known.conversion) == (dataset.revision, dataset.conversion)
    if known and same and (known.disk.override_used or not disk.required_free):
        return known.disk
    return disk


def _fetched_dataset(places: Places, dataset: Dataset, disk: Disk) -> FetchedDataset:
    from pyarrow import parquet

    main = places.snapshot("dataset", dataset.repo, dataset.conversion or dataset.revision)
    rows, cache_files = {}, {}
    for split in dataset.splits:
        paths = split.paths(main)
        if dataset.shards is not None and len(paths) != dataset.shards:
            raise Refused(f"{main}: {len(paths)} shards, pinned are {dataset.shards}")
        available = sum(parquet.read_metadata(path).num_rows for path in paths)
        rows[split.name] = len(document_range(split.expression, available))
        if rows[split.name] != split.documents:
            raise Refused(
                f"dataset {dataset.key}: split {split.name} has {rows[split.name]} rows, pinned "
                f"are {split.documents}"
            )
        cache_files[split.name] = tuple(p.relative_to(places.data).as_posix() for p in paths)
    snapshots = [main, places.snapshot("dataset", dataset.repo, dataset.revision)]
    found = {path.relative_to(places.data).as_posix() for path in snapshots if path.is_dir()}
    return FetchedDataset(
        repo=dataset.repo,
        revision=dataset.revision,
        conversion=dataset.conversion,
        snapshots=tuple(sorted(found)),
        rows=rows,
        cache_files=cache_files,
        disk=disk,
    )

"""What lies in the data folder: pinned, missing, not pinned; and removing what is not."""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.data.pins import Pins
from harness.data.places import Places, hub_folder

State = Literal["pinned", "incomplete", "missing", "not pinned"]


@dataclass(frozen=True)
class Item:
    """A thing in the cache, or one that should be there: `paths` are what removing it removes."""

    what: str
    state: State
    size: int
    paths: tuple[Path, ...] = ()


def size(path: Path) -> int:
    """Bytes of the files below a path; links count nothing."""
    if path.is_symlink() or not path.exists():
        return 0
    if path.is_file():
        return path.stat().st_size
    return sum(size(entry) for entry in path.iterdir())


def survey(places: Places, known: Pins) -> list[Item]:
    """Everything there and everything pinned, in order of name."""
    items = [*_pinned(places, known), *_loose(places, known), *_sets(places, known)]
    return sorted(items, key=lambda item: item.what)


def unpinned(items: Iterable[Item]) -> list[Item]:
    """What may be removed."""
    return [item for item in items if item.state == "not pinned"]


def remove(items: Iterable[Item]) -> None:
    """Remove the paths of items; links are removed and not followed."""
    for path in (path for item in items for path in item.paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _revisions(known: Pins) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Each pinned snapshot: label, Hub folder, revision, and the files it must have."""
    for model in known.models.values():
        folder = hub_folder("model", model.repo)
        yield f"model {model.key}", folder, model.revision, tuple(model.files)
    for dataset in known.datasets.values():
        if dataset.kind == "hub":
            folder = hub_folder("dataset", dataset.repo)
            patterns = tuple(pattern for split in dataset.splits for pattern in split.files)
            revision = dataset.conversion or dataset.revision
            yield f"dataset {dataset.key}", folder, revision, patterns
            if dataset.conversion:
                yield f"dataset {dataset.key} (description)", folder, dataset.revision, ()
    for raw in known.repositories.values():
        folder = hub_folder("dataset", raw.repo)
        yield f"dataset {raw.key}", folder, raw.revision, tuple(raw.files)


def _pinned(places: Places, known: Pins) -> Iterator[Item]:
    for label, folder, revision, patterns in _revisions(known):
        snapshot = places.hub / folder / "snapshots" / revision
        what = f"{label}@{revision[:12]}"
        if not snapshot.is_dir():
            yield Item(what, "missing", 0)
            continue
        whole = all(any(p.exists() for p in snapshot.glob(pattern)) for pattern in patterns)
        held = sum(path.resolve().stat().st_size for path in _entries(snapshot))
        yield Item(what, "pinned" if whole else "incomplete", held)


def _entries(snapshot: Path) -> list[Path]:
    return [path for path in snapshot.rglob("*") if path.is_file()]


def _loose(places: Places, known: Pins) -> Iterator[Item]:
    """Repositories, snapshots and blobs of the Hub cache that no pin needs."""
    kept = {(folder, revision) for _, folder, revision, _ in _revisions(known)}
    if not places.hub.is_dir():
        return
    for folder in sorted(path for path in places.hub.iterdir() if "--" in path.name):
        revisions = {revision for name, revision in kept if name == folder.name}
        if not revisions:
            yield Item(folder.name, "not pinned", size(folder), (folder,))
            continue
        snapshots = folder / "snapshots"
        needed: set[Path] = set()
        for snapshot in sorted(snapshots.iterdir()) if snapshots.is_dir() else []:
            if snapshot.name in revisions:
                needed |= {path.resolve() for path in _entries(snapshot)}
            else:
                what = f"{folder.name}@{snapshot.name[:12]}"
                yield Item(what, "not pinned", size(snapshot), (snapshot,))
        blobs = folder / "blobs"
        for blob in sorted(blobs.iterdir()) if blobs.is_dir() else []:
            # An incomplete blob of a pinned repository is a download to go on with.
            if blob.resolve() not in needed and blob.suffix != ".incomplete":
                what = f"{folder.name} blob {blob.name[:12]}"
                yield Item(what, "not pinned", size(blob), (blob,))


def _sets(places: Places, known: Pins) -> Iterator[Item]:
    """Processed sets and training caches."""
    names = {dataset.processed for dataset in known.datasets.values()}
    for name in sorted(names):
        here = places.processed(name)
        whole = here.is_dir() and places.manifest(name).is_file()
        state: State = "pinned" if whole else "incomplete" if here.is_dir() else "missing"
        yield Item(f"processed set {name}", state, size(here))
    for folder in (places.data / "processed", *sorted((places.data / "training").glob("*"))):
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if path.name.removeprefix(".").removesuffix(".part") not in names:
                what = f"{folder.name} {path.name}"
                yield Item(what, "not pinned", size(path), (path,))

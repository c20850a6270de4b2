"""What lies in the data folder: pinned, missing, not pinned; and removing what is not."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.data import bridge, downloads
from harness.data.downloads import Downloads, FetchedDataset
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


def _own_size(path: Path) -> int:
    """The same, without files that another folder holds as well."""
    files = (file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return sum(file.stat().st_size for file in files if file.stat().st_nlink == 1)


def survey(places: Places, known: Pins) -> list[Item]:
    """Everything there and everything pinned, in order of name."""
    items = [*_pinned(places, known), *_loose(places, known)]
    items += [*_corpora(places, known), *_sets(places, known), *_training(places, known)]
    return sorted(items, key=lambda item: item.what)


def unpinned(items: Iterable[Item]) -> list[Item]:
    """What may be removed."""
    return [item for item in items if item.state == "not pinned"]


def remove(items: Iterable[Item]) -> int:
    """Remove the paths of items and return their bytes; links are removed and not followed."""
    freed = 0
    for item in items:
        for path in item.paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        freed += item.size
    return freed


@dataclass(frozen=True)
class _Pinned:
    """A pinned snapshot: its label, where it lies, and whether its files are all there."""

    label: str
    folder: str
    revision: str
    whole: Callable[[Path], bool]
    weights: tuple[str, ...] = ()


def _has(names: Iterable[str]) -> Callable[[Path], bool]:
    return lambda snapshot: all((snapshot / name).is_file() for name in names)


def _revisions(known: Pins, fetched: Downloads) -> Iterator[_Pinned]:
    for model in known.models.values():
        folder = hub_folder("model", model.repo)
        whole, weights = _has(model.files), tuple(model.weights)
        yield _Pinned(f"model {model.key}", folder, model.revision, whole, weights)
    for dataset in known.datasets.values():
        if dataset.kind == "hub":
            folder, label = hub_folder("dataset", dataset.repo), f"dataset {dataset.key}"
            revision = dataset.conversion or dataset.revision
            yield _Pinned(
                label, folder, revision, _fetched_whole(fetched.datasets.get(dataset.key))
            )
            if dataset.conversion:
                yield _Pinned(f"{label} (description)", folder, dataset.revision, _has(()))
    for raw in known.repositories.values():
        folder = hub_folder("dataset", raw.repo)
        yield _Pinned(f"dataset {raw.key}", folder, raw.revision, _has(raw.files))


def _fetched_whole(record: FetchedDataset | None) -> Callable[[Path], bool]:
    """Whether every file is there that was recorded when the fetch was done."""

    def whole(snapshot: Path) -> bool:
        if record is None:
            return False
        data = snapshot.parents[5]  # raw/huggingface/hub/REPOSITORY/snapshots/REVISION
        return all(
            (data / name).is_file() for names in record.cache_files.values() for name in names
        )

    return whole


def _pinned(places: Places, known: Pins) -> Iterator[Item]:
    for pin in _revisions(known, downloads.read(places.downloads)):
        snapshot = places.hub / pin.folder / "snapshots" / pin.revision
        what = f"{pin.label}@{pin.revision[:12]}"
        if not snapshot.is_dir():
            yield Item(what, "missing", 0)
            continue
        held = sum(path.resolve().stat().st_size for path in _entries(snapshot))
        what += "" if _has(pin.weights)(snapshot) else " (without weights)"
        yield Item(what, "pinned" if pin.whole(snapshot) else "incomplete", held)


def _entries(snapshot: Path) -> list[Path]:
    return [path for path in snapshot.rglob("*") if path.is_file()]


def _loose(places: Places, known: Pins) -> Iterator[Item]:
    """Repositories, snapshots and blobs of the Hub cache that no pin needs."""
    kept = {(pin.folder, pin.revision) for pin in _revisions(known, Downloads())}
    if not places.hub.is_dir():
        return
    for folder in sorted(path for path in places.hub.iterdir() if "--" in path.name):
        revisions = {revision for name, revision in kept if name == folder.name}
        if not revisions:
            yield Item(folder.name, "not pinned", size(folder), (folder,))
            continue
        if any(path.is_symlink() for path in (folder, folder / "snapshots", folder / "blobs")):
            continue  # what it leads to is elsewhere, and not ours to remove
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
            if blob.suffix == ".incomplete":  # a download to go on with
                what = f"{folder.name} download {blob.name[:12]}"
                yield Item(what, "incomplete", size(blob))
            elif blob.resolve() not in needed:
                what = f"{folder.name} blob {blob.name[:12]}"
                yield Item(what, "not pinned", size(blob), (blob,))


def _corpora(places: Places, known: Pins) -> Iterator[Item]:
    """The embedded corpora's text."""
    embedded = {key: d for key, d in known.datasets.items() if d.kind == "embedded"}
    for key, dataset in embedded.items():
        whole = _has(dataset.files)(places.corpus(key))
        yield Item(f"corpus {key}", "pinned" if whole else "missing", size(places.corpus(key)))
    yield from _others("corpus", places.corpus("any").parent, set(embedded))


def _sets(places: Places, known: Pins) -> Iterator[Item]:
    names = {dataset.processed for dataset in known.datasets.values()}
    for name in sorted(names):
        here = places.processed(name)
        whole = here.is_dir() and places.manifest(name).is_file()
        begun = here.is_dir() or places.partial(name).is_dir()
        state: State = "pinned" if whole else "incomplete" if begun else "missing"
        yield Item(f"processed set {name}", state, size(here) + size(places.partial(name)))
    yield from _others("processed set", places.processed("any").parent, names)


def _training(places: Places, known: Pins) -> Iterator[Item]:
    """Training caches; files that are links to the processed set's count nothing."""
    for dataset in known.datasets.values():
        for layout in bridge.layouts(dataset):
            here = places.training(layout, dataset.processed)
            state: State = "pinned" if here.is_dir() else "missing"
            yield Item(f"training cache {layout}/{dataset.processed}", state, _own_size(here))
    names = {dataset.processed for dataset in known.datasets.values()}
    for folder in sorted((places.data / "training").glob("*")):
        yield from _others(f"training cache {folder.name}/", folder, names)


def _others(what: str, folder: Path, names: set[str]) -> Iterator[Item]:
    """What lies in a folder and is nothing pinned, nor on its way to be."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name.removeprefix(".").removesuffix(".part") not in names:
            label = f"{what}{path.name}" if what.endswith("/") else f"{what} {path.name}"
            yield Item(label, "not pinned", size(path), (path,))

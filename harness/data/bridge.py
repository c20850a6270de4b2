"""The training cache: prepared data under the names and in the places upstreams look for.

Token data is never rewritten: the rows already carry their attention mask, so a layout is a few
hard links and small records. Where links cannot be made (another file system), files are copied.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.data import raw
from harness.data.digests import Digests
from harness.data.expected import Expected
from harness.data.manifest import Manifest
from harness.data.pins import STORES, Dataset, Model
from harness.data.places import Places
from harness.errors import Refused
from harness.files import sync_folder
from harness.json_files import publish_json, read_json

_RECORD = "bridge.json"


@dataclass(frozen=True)
class Prepared:
    """What a layout is made of: a dataset, its tokenizer, its processed set."""

    places: Places
    dataset: Dataset
    model: Model
    manifest: Manifest

    @property
    def raw(self) -> Path:
        """The folder of the dataset's raw text."""
        return raw.folder(self.places, self.dataset)

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's snapshot."""
        return self.places.snapshot("model", self.model.repo, self.model.revision)

    def record(self, layout: str) -> dict[str, object]:
        """What the cache says of where it comes from."""
        return {
            "schema_version": 1,
            "layout": layout,
            "dataset": self.dataset.key,
            "sequence_length": self.manifest.sequence_length,
            "tokenizer_revision": self.model.revision,
            "manifest_sha256": self.manifest.sha256(),
        }


@dataclass(frozen=True)
class Placed:
    """A file of a training cache: what it is a link to, and what it must hold."""

    source: Path
    size: int
    sha256: str


def _place(source: Path, target: Path) -> None:
    """Make `target` the file `source`: a hard link, or a copy where none can be made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    source = source.resolve()  # entries of a Hub snapshot are links to its blobs
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _lightning(prepared: Prepared) -> dict[str, Placed]:
    """HF dataset folders under the Lightning upstreams' own file names."""
    dataset, found = prepared.dataset, prepared.manifest
    folder = prepared.places.processed(dataset.processed)
    files = {}
    for split, pattern in dataset.training_files.items():
        target = pattern.format(length=found.sequence_length)
        for file in found.files:
            if file.path.startswith(f"{split}/"):
                name = f"{target}/{file.path.removeprefix(f'{split}/')}"
                files[name] = Placed(folder / file.path, file.size, file.sha256)
    return files


def _rdlm(prepared: Prepared) -> dict[str, Placed]:
    """Raw files and tokenizer in folders of the bare names that RDLM loads, split by file name."""
    dataset, by_name = prepared.dataset, prepared.dataset.by_name
    places, text = prepared.places, prepared.raw
    if by_name is None:
        raise Refused(f"layout rdlm: {dataset.key} has none; RDLM is for lm1b only")
    expected, files = Expected.read(places, text, dataset.files), {}
    for split in dataset.splits:
        for number, path in enumerate(raw.paths(places, dataset, split)):
            name = f"{by_name.splits[split.name]}-{number:05d}{path.suffix}"
            files[f"{by_name.dataset}/{name}"] = _as_is(path, expected)
    expected = Expected.read(places, prepared.tokenizer, prepared.model.files)
    for name in prepared.model.files:
        files[f"{by_name.tokenizer}/{name}"] = _as_is(prepared.tokenizer / name, expected)
    return files


def _as_is(path: Path, expected: Expected) -> Placed:
    """A raw or a tokenizer's file."""
    if not path.is_file():
        raise Refused(f"{path}: not found")
    name = path.relative_to(expected.folder).as_posix()
    return Placed(path, path.stat().st_size, expected.sha256(name))


def _stores(prepared: Prepared) -> dict[str, Placed]:
    """The token stores as they are."""
    folder = prepared.places.processed(prepared.dataset.processed)
    files = prepared.manifest.files
    return {file.path: Placed(folder / file.path, file.size, file.sha256) for file in files}


LAYOUTS: Mapping[str, Callable[[Prepared], dict[str, Placed]]] = {
    "lightning": _lightning,
    "rdlm": _rdlm,
    "stores": _stores,
}


def layouts(dataset: Dataset) -> tuple[str, ...]:
    """The layouts a dataset has."""
    if dataset.packing == STORES:
        return ("stores",)
    return ("lightning",) if dataset.by_name is None else ("lightning", "rdlm")


def current(prepared: Prepared, layout: str) -> Path | None:
    """The training cache, if it is there and was made from this manifest; bytes are not read."""
    folder = prepared.places.training(layout, prepared.dataset.processed)
    record = folder / _RECORD
    if not record.is_file():
        return None
    try:
        value: Any = read_json(record)
        wanted = {name: placed.size for name, placed in LAYOUTS[layout](prepared).items()}
    except Refused:
        return None
    here = {name: size for name, size in _sizes(folder).items() if name != _RECORD}
    return folder if value == prepared.record(layout) and here == wanted else None


def check(prepared: Prepared, layout: str, digests: Digests) -> None:
    """Compare every byte that a run will read with what was prepared.

    Raises Refused with the first file that differs.
    """
    folder = prepared.places.training(layout, prepared.dataset.processed)
    wanted = {folder / name: placed.sha256 for name, placed in LAYOUTS[layout](prepared).items()}
    for path, sha256 in digests.of(wanted).items():
        if sha256 != wanted[path]:
            raise Refused(
                f"{path}: sha256 {sha256}, prepared was {wanted[path]}; prepare "
                f"{prepared.dataset.key} again"
            )


def _right(prepared: Prepared, layout: str, digests: Digests) -> bool:
    try:
        check(prepared, layout, digests)
    except Refused:
        return False
    return True


def build(prepared: Prepared, layout: str, digests: Digests) -> Path:
    """The training cache of a layout, made anew unless it is current and every byte right.

    Raises Refused for an unknown layout, or a manifest of another dataset or length.
    """
    dataset, found = prepared.dataset, prepared.manifest
    if layout not in LAYOUTS:
        raise Refused(f"layout {layout}: unknown; one of {', '.join(LAYOUTS)}")
    if (found.dataset, found.sequence_length) != (dataset.key, dataset.sequence_length):
        raise Refused(
            f"processed set {dataset.processed}: is {found.dataset} at length "
            f"{found.sequence_length}, wanted is {dataset.key} at {dataset.sequence_length}"
        )
    ready = current(prepared, layout)
    if ready is not None and _right(prepared, layout, digests):
        return ready
    folder = prepared.places.training(layout, dataset.processed)
    part = folder.with_name(f".{folder.name}.part")
    for old in (part, folder):
        if old.exists():
            shutil.rmtree(old)
    part.mkdir(parents=True)
    for name, placed in LAYOUTS[layout](prepared).items():
        _place(placed.source, part / name)
    publish_json(part / _RECORD, prepared.record(layout))
    part.rename(folder)
    sync_folder(folder.parent)
    return folder


def _sizes(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if not path.is_dir()
    }

"""The training cache: a processed set under the names and in the places upstreams look for.

Token data is never rewritten: the rows already carry their attention mask, so a layout is a few
hard links and two small records. Where links cannot be made (another file system), files are
copied.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.data.manifest import Manifest
from harness.data.pins import Dataset
from harness.data.places import Places
from harness.errors import Refused
from harness.files import publish_json, read_json, sync_folder

_RECORD = "bridge.json"


def _place(source: Path, target: Path) -> None:
    """Make `target` the file `source`: a hard link, or a copy where none can be made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copyfile(source, target)


def _lightning(places: Places, dataset: Dataset, found: Manifest, folder: Path) -> None:
    """HF dataset folders under the Lightning upstreams' own file names."""
    for split, pattern in dataset.training_files.items():
        target = folder / pattern.format(length=found.sequence_length)
        for file in found.files:
            if file.path.startswith(f"{split}/"):
                source = places.processed(dataset.processed) / file.path
                _place(source, target / file.path.removeprefix(f"{split}/"))


LAYOUTS: dict[str, Callable[[Places, Dataset, Manifest, Path], None]] = {"lightning": _lightning}


def _expected(dataset: Dataset, found: Manifest, layout: str) -> dict[str, object]:
    return {
        "schema_version": 1,
        "layout": layout,
        "dataset": dataset.key,
        "sequence_length": found.sequence_length,
        "manifest_sha256": found.sha256(),
    }


def current(places: Places, dataset: Dataset, found: Manifest, layout: str) -> Path | None:
    """The training cache, if it is there and was made from this manifest; bytes are not read."""
    folder = places.training(layout, dataset.processed)
    record = folder / _RECORD
    if not record.is_file():
        return None
    try:
        value: Any = read_json(record)
    except Refused:
        return None
    files = value.pop("files", None)
    if value != _expected(dataset, found, layout) or not isinstance(files, dict):
        return None
    here = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and path != record
    }
    return folder if here == files else None


def build(places: Places, dataset: Dataset, found: Manifest, layout: str) -> Path:
    """The training cache of a layout, made anew unless it is current.

    Raises Refused for an unknown layout, or a manifest of another dataset or length.
    """
    if layout not in LAYOUTS:
        raise Refused(f"layout {layout}: unknown; one of {', '.join(LAYOUTS)}")
    if (found.dataset, found.sequence_length) != (dataset.key, dataset.sequence_length):
        raise Refused(
            f"processed set {dataset.processed}: is {found.dataset} at length "
            f"{found.sequence_length}, wanted is {dataset.key} at {dataset.sequence_length}"
        )
    ready = current(places, dataset, found, layout)
    if ready is not None:
        return ready
    folder = places.training(layout, dataset.processed)
    part = folder.with_name(f".{folder.name}.part")
    for old in (part, folder):
        if old.exists():
            shutil.rmtree(old)
    part.mkdir(parents=True)
    LAYOUTS[layout](places, dataset, found, part)
    files = {
        p.relative_to(part).as_posix(): p.stat().st_size for p in part.rglob("*") if p.is_file()
    }
    publish_json(part / _RECORD, {**_expected(dataset, found, layout), "files": files})
    part.rename(folder)
    sync_folder(folder.parent)
    return folder

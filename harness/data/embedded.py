"""Publishing the embedded corpora and tokenizers: made here, and exactly the pinned bytes."""

import hashlib
import json
from pathlib import Path

from harness.data import corpus, tokenizer
from harness.data.pins import Dataset, Model
from harness.data.places import Places, hub_folder
from harness.errors import HarnessError
from harness.files import publish_bytes, sha256_file


def _right(folder: Path, pinned: dict[str, str | None]) -> bool:
    """Whether every pinned file is in `folder` with its digest."""
    return all(
        (folder / name).is_file() and sha256_file(folder / name) == sha256
        for name, sha256 in pinned.items()
    )


def _publish(folder: Path, files: dict[str, bytes], pinned: dict[str, str | None]) -> None:
    """Publish generated files; bytes other than the pinned ones are refused before any is."""
    for name in sorted(files.keys() | pinned.keys()):
        data = files.get(name)
        made = None if data is None else hashlib.sha256(data).hexdigest()
        if made != pinned.get(name):
            raise HarnessError(
                f"{folder / name}: generated with sha256 {made}, pinned is {pinned.get(name)}; "
                "generator and pins.json must come from one commit"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        publish_bytes(folder / name, data)


def write_corpus(places: Places, dataset: Dataset) -> Path:
    """The folder of an embedded corpus's splits, generated unless already right.

    Raises HarnessError where this code generates other bytes than are pinned.
    """
    folder, pinned = places.corpus(dataset.key), dict(dataset.files)
    if not _right(folder, pinned):
        how = dataset.generator
        if how is None or how.version != corpus.VERSION:
            raise HarnessError(f"dataset {dataset.key}: pinned for another generator version")
        texts = corpus.generate(how.style, how.seed, how.documents)
        _publish(folder, {f"{split}.jsonl": text for split, text in texts.items()}, pinned)
    return folder


def write_tokenizer(places: Places, model: Model, trained_on: Path) -> Path:
    """The snapshot of an embedded tokenizer in the Hub cache's layout, made unless right.

    `trained_on` is the corpus folder; only its training split counts. `refs/main` names the
    snapshot, so that a load by bare name finds it offline.
    """
    folder, pinned = (
        places.snapshot("model", model.repo, model.revision),
        dict(model.files),
    )
    if not _right(folder, pinned):
        lines = (trained_on / "train.jsonl").read_bytes().splitlines()
        files = tokenizer.build(str(model.family), (json.loads(line)["text"] for line in lines))
        _publish(folder, files, pinned)
    refs = places.hub / hub_folder("model", model.repo) / "refs"
    refs.mkdir(exist_ok=True)
    publish_bytes(refs / "main", model.revision.encode())
    return folder

"""A tiny dataset to prepare, and a project in which the embedded one is."""

import json
from pathlib import Path

from harness.data.pins import Dataset, Ids, Model, Split
from harness.data.places import Places
from harness.data.prepare import Work

NAMES = {"train": "toy_train_bs{length}.dat", "validation": "toy_test_bs{length}.dat"}


def toy_work(
    root: Path,
    tokenizer: Path,
    documents: dict[str, list[str]],
    *,
    data: str = "data",
    length: int = 8,
    processes: int = 1,
) -> Work:
    """A Work over these documents, by split; its data folder is `root`/`data`."""
    raw = root / f"{data}-raw"
    raw.mkdir(exist_ok=True)
    for split, texts in documents.items():
        lines = [json.dumps({"text": text}) + "\n" for text in texts]
        (raw / f"{split}.jsonl").write_text("".join(lines))
    splits = tuple(Split(n, n, (f"{n}.jsonl",), len(t)) for n, t in documents.items())
    dataset = Dataset(
        key="toy",
        kind="hub",
        repo="owner/toy",
        revision="1" * 40,
        conversion=None,
        config="plain_text",
        shards=None,
        files={},
        splits=splits,
        detokenizer="lm1b",
        tokenizer="toy-bert",
        models=("toy-bert",),
        sequence_length=length,
        processed=f"toy-bert-{length}",
        training_name="toy",
        training_files={split: NAMES[split] for split in documents},
        by_name=None,
        required_free=0,
        generator=None,
    )
    ids = Ids(1000, 101, 102)
    model = Model("toy-bert", "hub", "toy-bert", "2" * 40, {}, {}, None, None, ids)
    return Work(dataset, model, raw, tokenizer, Places(root / data), processes)

"""Tiny token stores and runs of the ensemble's trainer on them."""

import copy
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY, CONTEXT, BOS = 23, 16, 22
SIZES = {"old_web_train": 30, "chat_train": 30, "old_web_validation": 6, "chat_validation": 6}


def write_stores(folder: Path, seed: int = 0) -> str:
    """Stores of documents whose tokens count up, with noise; the digest of their manifest."""
    chance = random.Random(seed)
    stores = {}
    for name, documents in SIZES.items():
        tokens: list[int] = []
        rows: list[tuple[int, int, int]] = []
        for _ in range(documents):
            at = chance.randrange(22)
            sentences = chance.randint(1, 6)
            for number in range(sentences):
                length, last = chance.randint(1, CONTEXT - 1), number == sentences - 1
                for _ in range(length):
                    at = (at + 1) % 22 if chance.random() < 0.8 else chance.randrange(22)
                    tokens.append(at)
                rows.append((length + last, 4 * length, int(last)))
                tokens += [BOS] * last
        (folder / name).mkdir(parents=True)
        files = {"tokens.u16": np.array(tokens, "<u2"), "sentences.u32": np.array(rows, "<u4")}
        for file, values in files.items():
            (folder / name / file).write_bytes(values.tobytes())
        stores[name] = {
            "files": {
                file: {
                    "size": len(values.tobytes()),
                    "sha256": hashlib.sha256(values.tobytes()).hexdigest(),
                }
                for file, values in files.items()
            }
        }
    about = {"context": CONTEXT, "vocabulary": VOCABULARY, "bos": BOS, "stores": stores}
    text = json.dumps(about).encode()
    (folder / "stores.json").write_bytes(text)
    return hashlib.sha256(text).hexdigest()


def settings(root: Path, output: str, **changes: Any) -> dict[str, Any]:
    """A twin's settings; `changes` are by dotted names with `__` for dots."""
    found: dict[str, Any] = {
        "stage": "lm",
        "arm": None,
        "member": "v42",
        "seed": 1,
        "output": str(root / output),
        "log": str(root / output / "tensorboard"),
        "tracking": {"log_every": 5, "show": 0},
        "data": {
            "folder": str(root / "stores"),
            "manifest_sha256": hashlib.sha256(
                (root / "stores" / "stores.json").read_bytes()
            ).hexdigest(),
            "context": CONTEXT,
        },
        "mixture": {"epochs": 2, "chat_fraction": 0.25},
        "crop": {"probability": 0.5, "minimum": 3},
        "batch": {"windows": 8, "microbatch": 8, "pool": 2},
        "model": {"vocabulary": VOCABULARY, "width": 8, "layers": 1, "heads": 2, "hidden": 16},
        "optim": {
            "lr": 0.01,
            "beta1": 0.9,
            "beta2": 0.95,
            "eps": 1e-8,
            "weight_decay": 0.1,
            "warmup": 3,
            "floor": 0.1,
            "clip": 1.0,
        },
        "checkpoint_every": 4,
        "distillation": {
            "pool": None,
            "weight": 0.5,
            "temperature": 1.0,
            "rows": 7,
            "teachers": {
                name: {"file": None, "sha256": None, "step": None}
                for name in ("v42", "s1", "s2", "s3")
            },
        },
        "device": {"accelerator": "cpu", "precision": "32", "compile": False, "threads": 1},
        "smoke_updates": 1000,
        "launch": {"resume": True, "devices": 1, "nodes": 1, "accumulation": 1},
    }
    for name, value in changes.items():
        put(found, name.replace("__", "."), value)
    return found


def put(found: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Set one setting by its dotted name."""
    *above, last = name.split(".")
    for part in above:
        found = found[part]
    found[last] = value
    return found


def changed(found: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """A copy with one setting changed."""
    found = copy.deepcopy(found)
    put(found, name, value)
    return found


def student(root: Path, output: str, arm: str, **changes: Any) -> dict[str, Any]:
    """A student's settings; its teachers are the runs named after the members in `root`."""
    pool, member = arm.split("-")
    found = settings(root, output, stage="distill", arm=arm, member=member, **changes)
    found["distillation"]["pool"] = pool
    for name, teacher in found["distillation"]["teachers"].items():
        teacher["file"] = str(root / name / "checkpoints" / "last.ckpt")
    return found


def results(folder: Path) -> dict[str, str]:
    """The digests of what must be the same bytes for equal runs."""
    names = [*sorted(folder.glob("checkpoints/*.ckpt")), *sorted(folder.glob("plan/*"))]
    names += [folder / "metrics.jsonl", folder / "plan.json", folder / "config.json"]
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in names
    }

"""The frozen mixture plan: which windows, in which order, in each epoch.

An epoch has every old-web window once, and as many chat windows, none twice, as bring the chat's
share of the targets that are really trained on (after the crop) to the asked one. Windows of like
length stand together in a batch. The plan is written down before training (`plan.json` and a
file an epoch) and every later start reads it and checks it.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble.files import publish
from ensemble.settings import MAX_EPOCHS, Refusal, Settings
from ensemble.stores import DOMAINS
from ensemble.windows import Counts, Windows, kept

RECORD, FOLDER = "plan.json", "plan"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Epoch:
    """An epoch's samples in order, and how many targets each keeps; arrays are (samples,)."""

    order: Counts
    kept: Counts
    domain: Counts

    def updates(self, batch: int) -> int:
        """How many batches it has; the last may be smaller."""
        return -(-len(self.order) // batch)


@dataclass(frozen=True)
class Plan:
    """All epochs; `record` is `plan.json`, `sha256` its digest."""

    epochs: tuple[Epoch, ...]
    batch: int
    record: dict[str, Any]

    @property
    def sha256(self) -> str:
        """The digest of `plan.json`."""
        return hashlib.sha256(_encoded(self.record)).hexdigest()

    @property
    def updates(self) -> list[int]:
        """Each epoch's updates."""
        return [epoch.updates(self.batch) for epoch in self.epochs]


def made_from(settings: Settings, stores_sha256: str) -> dict[str, Any]:
    """All that decides a plan."""
    return {
        "stores_sha256": stores_sha256,
        "seed": settings["seed"],
        "member": settings["member"],
        "context": settings["data"]["context"],
        "epochs": settings["mixture"]["epochs"],
        "chat_fraction": float(settings["mixture"]["chat_fraction"]),
        "crop": {
            "probability": float(settings["crop"]["probability"]),
            "minimum": settings["crop"]["minimum"],
        },
        "batch": settings["batch"]["windows"],
        "pool": settings["batch"]["pool"],
    }


def seed_of(seed: int, member: int) -> int:
    """The seed of one of the four: of its weights, its order and its crops."""
    return seed * 1_000_003 + member


def build(windows: Windows, settings: Settings, stores_sha256: str, seed: int) -> Plan:
    """A plan from nothing. Raises Refusal where there is too little chat for its share."""
    made = made_from(settings, stores_sha256)
    epochs = tuple(_epoch(windows, made, seed, number) for number in range(made["epochs"]))
    record = {
        "schema_version": SCHEMA_VERSION,
        "made_from": made,
        "epochs": [_told(epoch, made["batch"], n) for n, epoch in enumerate(epochs)],
    }
    return Plan(epochs, made["batch"], record)


def _epoch(windows: Windows, made: dict[str, Any], seed: int, number: int) -> Epoch:
    random = np.random.Generator(np.random.Philox(key=[seed, number]))
    whole = np.arange(len(windows))
    crop = made["crop"]
    lengths = kept(seed, number, whole, windows.targets, crop["probability"], crop["minimum"])
    old_web, chat = (random.permutation(windows.of(n)) for n in range(len(DOMAINS)))
    chosen = np.concatenate((old_web, chat[: _needed(lengths, old_web, chat, made)]))
    order = _bucketed(random, random.permutation(chosen), lengths, made["batch"], made["pool"])
    return Epoch(order, lengths[order], windows.store[order])


def _needed(lengths: Counts, old_web: Counts, chat: Counts, made: dict[str, Any]) -> int:
    """How many chat windows, from the first, give the chat its share of the targets."""
    share = made["chat_fraction"]
    wanted = share / (1 - share) * int(lengths[old_web].sum())
    found = np.cumsum(lengths[chat])
    if not wanted:
        return 0
    if not len(found) or found[-1] < wanted:
        have = int(found[-1]) if len(found) else 0
        raise Refusal(
            f"mixture.chat_fraction={share}: needs {wanted:.0f} chat targets an epoch, "
            f"the chat store has {have}"
        )
    return int(np.searchsorted(found, wanted)) + 1


def _bucketed(
    random: np.random.Generator, order: Counts, lengths: Counts, batch: int, pool: int
) -> Counts:
    """The samples so that those of a batch are of like length; the batches stay shuffled.

    Within every `pool` batches samples are sorted by length. A last, smaller batch is the last.
    """
    full = len(order) // batch * batch
    rest = order[full:]
    parts = [order[at : min(at + batch * pool, full)] for at in range(0, full, batch * pool)]
    by_length = [part[np.argsort(lengths[part], kind="stable")] for part in parts]
    batches = np.concatenate(by_length).reshape(-1, batch) if full else order[:0].reshape(0, batch)
    return np.concatenate((random.permutation(batches).reshape(-1), rest))


def _told(epoch: Epoch, batch: int, number: int) -> dict[str, Any]:
    return {
        "file": f"{FOLDER}/epoch-{number + 1}.u32",
        "sha256": hashlib.sha256(_samples(epoch)).hexdigest(),
        "updates": epoch.updates(batch),
        "windows": _by_domain(epoch, np.ones_like(epoch.kept)),
        "targets": _by_domain(epoch, epoch.kept),
    }


def _by_domain(epoch: Epoch, values: Counts) -> dict[str, int]:
    return {name: int(values[epoch.domain == n].sum()) for n, name in enumerate(DOMAINS)}


def _samples(epoch: Epoch) -> bytes:
    return epoch.order.astype("<u4").tobytes()


def _encoded(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, indent=1, sort_keys=True) + "\n").encode()


def write(plan: Plan, folder: Path) -> None:
    """Publish the epochs' files, and then `plan.json`."""
    for epoch, told in zip(plan.epochs, plan.record["epochs"], strict=True):
        publish(folder / told["file"], _samples(epoch))
    publish(folder / RECORD, _encoded(plan.record))


def read(folder: Path, windows: Windows, settings: Settings, stores_sha256: str, seed: int) -> Plan:
    """The plan in `folder`, checked whole. Raises Refusal with what is wrong with it."""
    path = folder / RECORD
    try:
        record = json.loads(path.read_bytes())
        version, made, told = (record[n] for n in ("schema_version", "made_from", "epochs"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refusal(f"{path}: no readable plan ({type(error).__name__})") from error
    if version != SCHEMA_VERSION:
        raise Refusal(f"{path}: schema version {version}, read here is {SCHEMA_VERSION}")
    for name, wanted in made_from(settings, stores_sha256).items():
        if made.get(name) != wanted:
            raise Refusal(f"{path}: was made with {name} {made.get(name)}, this run has {wanted}")
    if not 1 <= len(told) <= MAX_EPOCHS:
        raise Refusal(f"{path}: {len(told)} epochs; a plan has 1 to {MAX_EPOCHS}")
    if len(told) != made["epochs"]:
        raise Refusal(f"{path}: incomplete, {len(told)} of {made['epochs']} epochs")
    epochs = []
    for number, entry in enumerate(told):
        epoch = _read_epoch(folder, entry, windows, made, seed, number)
        for fault in _faults(epoch, entry, windows, made, number):
            raise Refusal(f"{path}: epoch {number + 1}: {fault}")
        epochs.append(epoch)
    return Plan(tuple(epochs), made["batch"], record)


def _read_epoch(
    folder: Path,
    entry: dict[str, Any],
    windows: Windows,
    made: dict[str, Any],
    seed: int,
    number: int,
) -> Epoch:
    if entry.get("file") != f"{FOLDER}/epoch-{number + 1}.u32":
        raise Refusal(f"{folder / RECORD}: epoch {number + 1}: its file is {entry.get('file')}")
    path = folder / entry["file"]
    if not path.is_file():
        raise Refusal(f"{path}: the plan's epoch is missing")
    raw = path.read_bytes()
    found = hashlib.sha256(raw).hexdigest()
    if found != entry["sha256"] or len(raw) % 4:
        raise Refusal(f"{path}: sha256 {found}, {RECORD} says {entry['sha256']}")
    order: NDArray[np.int64] = np.frombuffer(raw, "<u4").astype(np.int64)
    if len(order) and order.max() >= len(windows):
        raise Refusal(f"{path}: window {order.max()}, the stores have {len(windows)}")
    crop = made["crop"]
    lengths = kept(
        seed, number, order, windows.targets[order], crop["probability"], crop["minimum"]
    )
    return Epoch(order, lengths, windows.store[order])


def _faults(
    epoch: Epoch, entry: dict[str, Any], windows: Windows, made: dict[str, Any], number: int
) -> Iterator[str]:
    numbers, times = np.unique(epoch.order, return_counts=True)
    if (times > 1).any():
        yield f"window {numbers[times > 1][0]} stands in it twice"
    lacking = np.setdiff1d(windows.of(0), epoch.order)
    if len(lacking):
        yield f"old-web window {lacking[0]} is not in it ({len(lacking)} such)"
    told = _told(epoch, made["batch"], number)
    for name in ("updates", "windows", "targets"):
        if entry.get(name) != told[name]:
            yield f"{name} {entry.get(name)}, its samples make {told[name]}"
    share, targets = made["chat_fraction"], told["targets"]
    wanted, longest = (
        share / (1 - share) * targets["old_web"],
        epoch.kept[epoch.domain == 1].max(initial=0),
    )
    if not wanted <= targets["chat"] < wanted + max(longest, 1):
        found = targets["chat"] / sum(targets.values())
        yield f"chat is {found:.4f} of its targets, wanted is {share}"


def batch_of(epoch: Epoch, number: int, batch: int) -> tuple[Counts, Counts]:
    """The samples of an epoch's batch and the targets each keeps."""
    part = slice(number * batch, (number + 1) * batch)
    return epoch.order[part], epoch.kept[part]


def totals(epochs: Sequence[Epoch], batch: int, epoch: int, number: int) -> dict[str, Any]:
    """What has been seen once `number` batches of epoch `epoch` are done."""
    done = [*epochs[:epoch]]
    if number:
        part = slice(0, number * batch)
        here = epochs[epoch]
        done.append(Epoch(here.order[part], here.kept[part], here.domain[part]))
    windows = dict.fromkeys(DOMAINS, 0)
    for one in done:
        for name, count in _by_domain(one, np.ones_like(one.kept)).items():
            windows[name] += count
    return {
        "examples": sum(len(one.order) for one in done),
        "tokens": sum(int(one.kept.sum()) for one in done),
        "windows": windows,
    }

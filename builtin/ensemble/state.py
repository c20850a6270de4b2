"""A checkpoint: all that training goes on from, and every redundancy in it checked on the way back.

An update counts once its optimiser step is done, so a checkpoint is always of whole updates. Its
position is said several times over (step, epoch, cursor, totals, results of finished epochs, the
optimiser's own counts), and all of it must agree with the plan.
"""

import hashlib
import json
import math
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ensemble import mixture
from ensemble.mixture import Plan
from ensemble.settings import Refusal, Settings, flat

FORMAT = "ensemble-1"
# How and where a run is run; anything else makes it another run.
HOW = ("output", "log", "tracking", "launch")
Content = dict[str, Any]


def seal(content: Content) -> Content:
    """The content with its own digest."""
    return {**content, "digest": digest(content)}


def load(path: Path) -> Content:
    """A sealed checkpoint, on the CPU. Raises Refusal where it is damaged, or none of these."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise Refusal(f"{path}: is not there") from error
    except (
        OSError,
        RuntimeError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        AssertionError,
        pickle.UnpicklingError,
    ) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise Refusal(f"{path}: no readable checkpoint ({why:.200})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Refusal(f"{path}: no checkpoint of this trainer (format {FORMAT})")
    if content.pop("digest", None) != digest(content):
        raise Refusal(f"{path}: digest: is not that of its content; it was damaged or altered")
    return content


def digest(value: object) -> str:
    """A SHA-256 over plain values and tensors, with their types and order."""
    sink = hashlib.sha256()
    _feed(sink, value)
    return sink.hexdigest()


def _feed(sink: Any, value: object) -> None:
    if isinstance(value, Tensor):
        sink.update(f"tensor {value.dtype} {tuple(value.shape)} ".encode())
        sink.update(value.detach().cpu().contiguous().numpy().tobytes())
    elif isinstance(value, dict):
        sink.update(f"dict {len(value)} ".encode())
        for key, entry in value.items():
            _feed(sink, key)
            _feed(sink, entry)
    elif isinstance(value, list | tuple):
        sink.update(f"{type(value).__name__} {len(value)} ".encode())
        for entry in value:
            _feed(sink, entry)
    else:
        told = repr(value).encode()
        sink.update(f"{type(value).__name__} {len(told)} ".encode() + told)


def of_settings(settings: Settings) -> str:
    """The digest of a configuration."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def check(
    path: Path,
    content: Content,
    settings: Settings,
    plan: Plan,
    model: Mapping[str, Tensor],
) -> None:
    """Raises Refusal with the first thing in `content` that does not fit this run or the rest."""
    try:
        for fault in _faults(content, settings, plan, model):
            raise Refusal(f"{path}: {fault}")
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise Refusal(f"{path}: makes no sense: {type(error).__name__}: {error}") from error


def _faults(
    content: Content, settings: Settings, plan: Plan, model: Mapping[str, Tensor]
) -> Iterator[str]:
    yield from _foreign(content, settings, plan)
    yield from _position(content, plan)
    yield from _results(content, settings, plan)
    yield from _weights(content, model)


def _unequal(name: str, found: object, wanted: object) -> Iterator[str]:
    if found != wanted or type(found) is not type(wanted):
        yield f"{name}: is {found}, should be {wanted}"


def _foreign(content: Content, settings: Settings, plan: Plan) -> Iterator[str]:
    """Another run's checkpoint."""
    theirs, ours = flat(content["config"]), flat(settings)
    for name in dict.fromkeys((*ours, *theirs)):
        if name.split(".")[0] not in HOW:
            yield from _unequal(f"config: {name}", theirs.get(name), ours.get(name))
    yield from _unequal("config_sha256", content["config_sha256"], of_settings(content["config"]))
    yield from _unequal("plan: sha256", content["plan"]["sha256"], plan.sha256)
    yield from _unequal("plan: updates", content["plan"]["updates"], plan.updates)


def _position(content: Content, plan: Plan) -> Iterator[str]:
    step, epoch, cursor = content["global_step"], content["epoch"], content["cursor"]
    for name, value in (("global_step", step), ("epoch", epoch), *cursor.items()):
        if type(value) is not int or value < 0:
            yield f"{name}: is {value}, should be a whole number"
    if epoch > len(plan.epochs):
        yield f"epoch: is {epoch}, the plan has {len(plan.epochs)}"
    yield from _unequal("cursor: epoch", cursor["epoch"], epoch)
    most = plan.updates[epoch] if epoch < len(plan.epochs) else 0
    if cursor["batch"] > most:
        yield f"cursor: batch: is {cursor['batch']}, the epoch has {most}"
    done = len(plan.epochs[epoch].order) if epoch < len(plan.epochs) else 0
    offset = min(cursor["batch"] * plan.batch, done)
    yield from _unequal("cursor: offset", cursor["offset"], offset)
    wanted = sum(plan.updates[:epoch]) + cursor["batch"]
    yield from _unequal("global_step", step, wanted)
    totals = mixture.totals(plan.epochs, plan.batch, epoch, cursor["batch"])
    for name, value in totals.items():
        yield from _unequal(f"totals: {name}", content["totals"][name], value)


def _results(content: Content, settings: Settings, plan: Plan) -> Iterator[str]:
    results, step = content["epochs"], content["global_step"]
    yield from _unequal("epochs: how many", len(results), content["epoch"])
    for number, result in enumerate(results):
        name = f"epochs: {number + 1}:"
        yield from _unequal(f"{name} epoch", result["epoch"], number + 1)
        yield from _unequal(f"{name} step", result["step"], sum(plan.updates[: number + 1]))
        for key, value in result.items():
            if type(value) not in (int, float) or not math.isfinite(value):
                yield f"{name} {key}: is {value}, should be a finite number"
    best = best_of(results)
    yield from _unequal("best", content["best"], best)
    budget = settings["smoke_updates"]
    if content["final"] is not None:
        yield from _unequal("final: step", content["final"]["step"], step)
        yield from _unequal("final: at the cap", step, budget)
    if type(content["metrics_rows"]) is not int or content["metrics_rows"] < 0:
        yield f"metrics_rows: is {content['metrics_rows']}, should be a whole number"


def best_of(results: list[dict[str, Any]]) -> int | None:
    """The epoch whose old-web bits per character are lowest, the first of equals."""
    found = min(results, key=lambda result: result["old_web_bits_per_character"], default=None)
    return None if found is None else found["epoch"]


def _weights(content: Content, model: Mapping[str, Tensor]) -> Iterator[str]:
    yield from weights_faults(content["state_dict"], model)
    (optimizer,), step = content["optimizer_states"], content["global_step"]
    places = [place for group in optimizer["param_groups"] for place in group["params"]]
    yield from _unequal("optimizer: parameters", len(places), len(model))
    known = optimizer["state"]
    yield from _unequal("optimizer: states", sorted(known), sorted(places) if step else [])
    for place, entry in known.items():
        yield from _unequal(f"optimizer: step of parameter {place}", int(entry["step"]), step)
        for name in ("exp_avg", "exp_avg_sq"):
            if not torch.isfinite(entry[name]).all():
                yield f"optimizer: {name} of parameter {place}: is not finite"
    for name in ("python", "numpy", "torch", "cuda"):
        if name not in content["random_state"]:
            yield f"random_state: {name}: is missing"


def weights_faults(state: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> Iterator[str]:
    """How a state differs in names and shapes from a model's, or is not finite."""
    yield from _unequal("state_dict: names", list(state), list(model))
    for name, value in state.items():
        yield from _unequal(f"state_dict: {name}: shape", value.shape, model[name].shape)
        if not torch.isfinite(value).all():
            yield f"state_dict: {name}: is not finite"

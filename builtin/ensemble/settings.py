"""Every setting's range, checked before anything is loaded, and what twins must share."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Settings = Mapping[str, Any]

MEMBERS = ("v42", "s1", "s2", "s3")
POOLS = ("geo", "mix")
MAX_EPOCHS = 20
# What a student may have otherwise than its twin; `launch` is how a run is run.
MAY_DIFFER = (
    "stage",
    "arm",
    "output",
    "log",
    "tracking",
    "distillation",
    "mixture.chat_fraction",
    "batch.microbatch",
    "smoke_updates",
    "launch",
)


class Refusal(Exception):
    """What cannot be trained, loaded or gone on from, in one line."""


Rule = Callable[[object], str | None]  # what is wrong with a value; None where nothing is


def whole(low: int, high: int) -> Rule:
    """A whole number in a range; a bool is none."""

    def fault(value: object) -> str | None:
        fits = type(value) is int and low <= value <= high
        return None if fits else f"must be a whole number from {low} to {high}"

    return fault


def number(low: float, high: float) -> Rule:
    """A finite number in a range."""

    def fault(value: object) -> str | None:
        fits = type(value) in (int, float) and math.isfinite(value) and low <= value <= high
        return None if fits else f"must be a number from {low:g} to {high:g}"

    return fault


def one_of(*values: object) -> Rule:
    """One of a few values, of the same type."""

    def fault(value: object) -> str | None:
        fits = any(value == one and type(value) is type(one) for one in values)
        return None if fits else f"must be one of {', '.join(map(str, values))}"

    return fault


def text(value: object) -> str | None:
    """A text that is not empty."""
    return None if isinstance(value, str) and value else "must be a text"


def digest(value: object) -> str | None:
    """A SHA-256 in lower-case hex."""
    fits = isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")
    return None if fits else "must be a SHA-256 of 64 hex digits; pin the data first"


def optional(rule: Rule) -> Rule:
    """Null, or what `rule` allows."""
    return lambda value: None if value is None else rule(value)


_TEACHER: Mapping[str, Rule] = {
    "file": optional(text),
    "sha256": optional(digest),
    "step": optional(whole(1, 1 << 40)),
}
RULES: Mapping[str, Rule] = {
    "stage": one_of("lm", "distill"),
    "arm": optional(one_of(*(f"{pool}-{member}" for pool in POOLS for member in MEMBERS))),
    "member": one_of(*MEMBERS),
    "seed": whole(0, (1 << 32) - 1),
    "output": text,
    "log": text,
    "tracking.log_every": whole(1, 1 << 20),
    "tracking.show": number(0, 3600),
    "data.folder": text,
    "data.manifest_sha256": digest,
    "data.context": whole(2, 1 << 15),
    "mixture.epochs": whole(1, MAX_EPOCHS),
    "mixture.chat_fraction": number(0, 0.99),
    "crop.probability": number(0, 1),
    "crop.minimum": whole(1, 1 << 15),
    "batch.windows": whole(1, 1 << 20),
    "batch.microbatch": whole(1, 1 << 20),
    "batch.pool": whole(1, 1 << 20),
    "model.vocabulary": whole(2, 1 << 16),
    "model.width": whole(1, 1 << 16),
    "model.layers": whole(1, 1 << 10),
    "model.heads": whole(1, 1 << 10),
    "model.hidden": whole(1, 1 << 18),
    "optim.lr": number(1e-9, 10),
    "optim.beta1": number(0, 0.999999),
    "optim.beta2": number(0, 0.999999),
    "optim.eps": number(1e-16, 1),
    "optim.weight_decay": number(0, 10),
    "optim.warmup": whole(0, 1 << 30),
    "optim.floor": number(0, 1),
    "optim.clip": number(1e-6, 1e6),
    "checkpoint_every": whole(1, 1 << 30),
    "distillation.pool": optional(one_of(*POOLS)),
    "distillation.weight": number(0, 1),
    "distillation.temperature": number(1, 1),
    "distillation.rows": whole(1, 1 << 20),
    **{
        f"distillation.teachers.{member}.{name}": rule
        for member in MEMBERS
        for name, rule in _TEACHER.items()
    },
    "device.accelerator": one_of("cpu", "cuda"),
    "device.precision": one_of("bf16", "32"),
    "device.compile": one_of(True, False),
    "device.threads": whole(1, 1 << 10),
    "smoke_updates": optional(whole(1, 1 << 30)),
    "launch.resume": one_of(True, False),
    "launch.devices": whole(1, 1 << 10),
    "launch.nodes": whole(1, 1 << 10),
    "launch.accumulation": whole(1, 1 << 20),
}


def flat(settings: Settings, above: str = "") -> dict[str, Any]:
    """Settings by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = value
    return found


def check(settings: Settings) -> None:
    """Raises Refusal with the first setting that is unknown, missing, out of range or at odds."""
    given = flat(settings)
    for name in [*given, *RULES]:
        if name not in RULES:
            raise Refusal(f"{name}: no such setting")
        if name not in given:
            raise Refusal(f"{name}: is missing")
        if fault := RULES[name](given[name]):
            raise Refusal(f"{name}={given[name]}: {fault}")
    for fault in _at_odds(settings):
        raise Refusal(fault)


def _at_odds(settings: Settings) -> Iterator[str]:
    model, batch, launch = settings["model"], settings["batch"], settings["launch"]
    if model["width"] % model["heads"]:
        yield f"model.width={model['width']}: no multiple of model.heads={model['heads']}"
    if settings["crop"]["minimum"] > settings["data"]["context"]:
        yield f"crop.minimum={settings['crop']['minimum']}: exceeds data.context"
    parts = launch["devices"] * launch["nodes"] * launch["accumulation"] * batch["microbatch"]
    if parts != batch["windows"]:
        yield (
            f"batch.windows={batch['windows']}: is not {launch['devices']} devices x "
            f"{launch['nodes']} nodes x {launch['accumulation']} accumulated x "
            f"{batch['microbatch']} windows"
        )
    yield from _stage(settings)
    device, budget = settings["device"], settings["smoke_updates"]
    formal = (device["accelerator"], device["precision"], device["compile"])
    if formal != ("cuda", "bf16", True) and budget is None:
        yield (
            f"device={'/'.join(map(str, formal))}: formal training is on CUDA, in bf16, compiled; "
            "anything else needs a positive smoke_updates"
        )
    if device["accelerator"] == "cpu" and formal[1:] != ("32", False):
        yield "device.accelerator=cpu: trains in precision 32, uncompiled, only"


def _stage(settings: Settings) -> Iterator[str]:
    arm, pool = settings["arm"], settings["distillation"]["pool"]
    teachers = settings["distillation"]["teachers"]
    if settings["stage"] == "lm":
        if arm is not None or pool is not None:
            yield "stage=lm: a twin has no arm and no distillation.pool"
        return
    wanted = f"{pool}-{settings['member']}"
    if arm != wanted:
        yield f"arm={arm}: the pool and the member say {wanted}"
    for member, teacher in teachers.items():
        if teacher["file"] is None:
            yield f"distillation.teachers.{member}.file: is missing; a student has four teachers"


def twin_differences(student: Settings, twin: Settings) -> list[str]:
    """The settings in which a student differs from its twin though it must not."""
    ours, theirs = flat(student), flat(twin)

    def free(name: str) -> bool:
        return any(name == one or name.startswith(f"{one}.") for one in MAY_DIFFER)

    return [
        f"{name} is {ours.get(name)}, its twin's {theirs.get(name)}"
        for name in dict.fromkeys((*ours, *theirs))
        if not free(name) and (name not in ours or name not in theirs or ours[name] != theirs[name])
    ]

"""Weights of a trained model, taken from its checkpoint into a backbone."""

import sys
from pathlib import Path

from torch import Tensor

import checkpoint
from backbone import DiT


def named(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names without the wrappers that trainers put around a backbone.

    Any `_orig_mod.` prefixes and then one `backbone.` are dropped. Two that become one name end
    the program.
    """
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        short = name
        while short.startswith("_orig_mod."):
            short = short.removeprefix("_orig_mod.")
        short = short.removeprefix("backbone.").replace("_orig_mod.", "")
        if short in found:
            sys.exit(f"teacher: {name} stands twice in its checkpoint")
        found[short] = value
    return found


def load(backbone: DiT, path: str, *, averaged: bool = False, new: tuple[str, ...] = ()) -> None:
    """Fill `backbone` from the checkpoint at `path`; with its averages if they are asked for.

    Parameters that start with one of `new` may be missing and keep their start. Anything else
    that is missing, too much, or of another shape ends the program.
    """
    content = checkpoint.load(Path(path))
    state = named(content["state_dict"])
    if averaged and "ema" in content:
        order = [name for name in state if name != "rotary_emb.inv_freq"]
        averages = content["ema"]["shadow_params"]
        if len(order) != len(averages):
            sys.exit(f"{path}: {len(averages)} averages for {len(order)} parameters")
        state |= dict(zip(order, averages, strict=True))
    mine = backbone.state_dict()
    state.setdefault("rotary_emb.inv_freq", mine["rotary_emb.inv_freq"])
    missing = [name for name in mine if name not in state and not name.startswith(new)]
    unknown = [name for name in state if name not in mine]
    for names, what in ((missing, "is missing"), (unknown, "is not of this backbone")):
        if names:
            sys.exit(f"{path}: {names[0]} {what} ({len(names)} such names)")
    for name, value in state.items():
        if value.shape != mine[name].shape:
            sys.exit(f"{path}: {name} is {tuple(value.shape)}, should be {tuple(mine[name].shape)}")
    backbone.load_state_dict(state, strict=False)

"""Everything that training goes on from, in one file, written whole or not at all.

Keys are those of the papers' trainers where they have them (`state_dict`, `ema`,
`optimizer_states`, `global_step`); what is beside those makes going on exact. Only tensors and
plain values are stored, so reading never runs code.
"""

import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

Plain = Any  # dicts, lists, tuples, strings, numbers, None and tensors


def save(path: Path, content: dict[str, Plain]) -> None:
    """Publish a checkpoint: written aside, flushed to disk, renamed.

    Equal content gives equal bytes: containers are rebuilt, so that how a value came about (read
    or computed) does not show in the file's internal references.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.part")
    with aside.open("wb") as file:
        torch.save(_rebuilt(content), file)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def load(path: Path) -> dict[str, Plain]:
    """Read a checkpoint onto the CPU; a damaged one ends the program."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError) as error:
        sys.exit(f"{path}: no readable checkpoint ({str(error).splitlines()[0]})")


def _rebuilt(value: Plain) -> Plain:
    if isinstance(value, dict):
        return {_rebuilt(key): _rebuilt(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_rebuilt(entry) for entry in value)
    return sys.intern(value) if isinstance(value, str) else value


def seed_all(seed: int) -> None:
    """Start every generator of this process anew."""
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    torch.manual_seed(seed)


def random_state() -> dict[str, Plain]:
    """The state of every generator of this process."""
    version, words, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "python": [version, torch.tensor(words), gauss],
        "numpy": [torch.from_numpy(keys.astype(np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def set_random_state(state: dict[str, Plain]) -> None:
    """Go back to a state of `random_state`."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words.tolist()), gauss))
    keys, *rest = state["numpy"]
    np.random.set_state(("MT19937", keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"])

"""Teachers' checkpoints for tests: a transformer's weights with random numbers, no torch needed."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from checkpoint_files import View, whole, write

from harness.inside.backbone import BIAS, EMBEDDING, ROTARY, WEIGHT, expected


def arrays(
    vocabulary: int, blocks: int = 2, hidden: int = 4, seed: int = 0
) -> dict[str, np.ndarray]:
    """Weights by plain name, in a trainer's order; of no use to a model but of the right rows."""
    random = np.random.default_rng(seed)
    shapes = dict.fromkeys(expected(blocks), (3,)) | {
        EMBEDDING: (vocabulary, hidden),
        WEIGHT: (vocabulary, hidden),
        BIAS: (vocabulary,),
        ROTARY: (2,),
    }
    return {name: random.normal(size=shape).astype("<f4") for name, shape in shapes.items()}


def checkpoint(
    path: Path,
    state: dict[str, np.ndarray],
    *,
    prefix: str = "backbone.",
    averages: Iterable[np.ndarray] | None = None,
    step: int = 7,
) -> Path:
    """Write a checkpoint as a trainer does; averages of the weights are the weights and one."""
    if averages is None:
        averages = [value + 1 for name, value in state.items() if name != ROTARY]
    storages: dict[str, bytes] = {}

    def stored(value: np.ndarray) -> View:
        key = str(len(storages))
        storages[key] = value.tobytes()
        return whole(value.dtype.name, key, *value.shape)

    content = {
        "state_dict": {prefix + name: stored(value) for name, value in state.items()},
        "ema": {"decay": 0.9, "shadow_params": [stored(value) for value in averages]},
        "global_step": step,
    }
    return write(path, content, storages)

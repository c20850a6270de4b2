"""Full validation of both domains, in fp32: loss, perplexity, bits per character."""

import math

import numpy as np
import torch

from checkpoint import random_state, set_random_state
from ensemble.batches import collate
from ensemble.loss import Head, pooled
from ensemble.model import Model
from ensemble.stores import DOMAINS
from ensemble.windows import Windows
from world import World


@torch.no_grad()
def validate(
    model: Model, windows: Windows, bos: int, batch: int, rows: int, world: World
) -> dict[str, float]:
    """Each domain's measures over every window, whole; all generators are as they were after.

    Bits per character are NLL / (characters * ln 2): of all targets, EOS too, over the text's
    own characters.
    """
    kept = random_state()
    model.eval()
    found: dict[str, float] = {}
    for number, name in enumerate(DOMAINS):
        mine = windows.of(number)
        mine = mine[np.argsort(windows.targets[mine], kind="stable")]
        nll = 0.0
        for start in range(world.rank * batch, len(mine), world.size * batch):
            samples = mine[start : start + batch]
            tensors = collate(windows, samples, windows.targets[samples], bos)
            tokens, labels, valid = (world.rows(one) for one in tensors)
            with torch.autocast(world.device.type, enabled=False):
                head = Head(model(tokens)[valid], model.embedding.weight)
                nll += pooled(head, labels[valid], (), "geo", 0.0, rows)[0].double().item()
        (nll,) = world.total(nll)
        loss = nll / int(windows.targets[mine].sum())
        found[f"{name}_loss"] = loss
        found[f"{name}_perplexity"] = math.exp(min(loss, 700.0))
        characters = int(windows.characters[mine].sum())
        found[f"{name}_bits_per_character"] = nll / (characters * math.log(2))
    model.train()
    set_random_state(kept)
    return found

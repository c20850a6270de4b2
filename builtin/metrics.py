"""How good a model is on held-out rows, and how good knowing only word frequencies would be."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from algorithms import Algorithm
from checkpoint import random_state, set_random_state
from data import Rows
from world import World

SEED = 20_240_611  # validation's own noise: the same at every step and in every run


@contextmanager
def own_noise(rank: int) -> Iterator[None]:
    """Fixed noise inside, and the training's noise untouched after."""
    kept = random_state()
    torch.manual_seed(SEED + rank)
    try:
        yield
    finally:
        set_random_state(kept)


def unigram_perplexity(training: Rows, held_out: Rows, vocabulary: int) -> float:
    """The perplexity of held-out tokens under the training set's token frequencies.

    One is added to every count, so that a token unseen in training has a probability.
    """
    counts = training.counts(vocabulary) + 1
    nll = -np.log(counts / counts.sum())
    seen = held_out.counts(vocabulary)
    return math.exp((seen * nll).sum() / seen.sum())


@torch.no_grad()
def validation(
    algorithm: Algorithm, held_out: Rows, batch: int, batches: int | None, world: World
) -> float:
    """The mean of the algorithm's measure, over the first `batches` batches (None: all).

    Noise levels are strata of the whole set, dealt to the rows in a fixed random order.
    """
    rows = len(held_out) if batches is None else min(len(held_out), batches * batch)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(SEED))
    total = count = 0.0
    algorithm.eval()
    with own_noise(world.rank):
        for start in range(world.rank * batch, rows, world.size * batch):
            places = np.arange(start, min(start + batch, rows))
            tokens = world.rows(held_out.take(places))
            strata = world.rows(order[places])
            uniform = (torch.rand(len(places), device=world.device) + strata) / rows
            measured = algorithm.measure(tokens, uniform)
            total += measured.double().sum().item()
            count += measured.numel()
    algorithm.train()
    total, count = world.total(total, count)
    return total / count

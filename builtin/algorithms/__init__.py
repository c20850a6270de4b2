"""The algorithms: a file each. Which one a configuration means is looked up in `ALGORITHMS`."""

from importlib import import_module

import torch
from torch import Tensor, nn

from backbone import DiT

ALGORITHMS = {
    "mdlm": "MDLM",
}


class Algorithm(nn.Module):
    """A backbone with what is learnt from its output. Subclasses are the files beside this one.

    Losses are per token in nats, (B, L), computed at noise levels that the caller spreads:
    `uniform` (B,) holds numbers in [0, 1), each drawn from its own stratum of the global batch
    (the low-discrepancy sampler of Kingma et al. 2021, section I.1).
    """

    backbone: DiT

    def forward(self, tokens: Tensor, uniform: Tensor, step: int) -> Tensor:
        """The training loss of clean rows (B, L) at optimiser step `step`."""
        raise NotImplementedError

    def bound(self, tokens: Tensor, uniform: Tensor) -> Tensor:
        """An unbiased estimate of an upper bound on each token's -log p."""
        raise NotImplementedError

    def sample(self, count: int, steps: int) -> Tensor:
        """Draw `count` rows (count, L) in `steps` evaluations of the backbone."""
        raise NotImplementedError


def build(config: object, vocabulary: object, precision: torch.dtype) -> Algorithm:
    """The algorithm that `config.algo.name` names, with a freshly initialised backbone."""
    name = config.algo.name
    found = getattr(import_module(f"algorithms.{name}"), ALGORITHMS[name])
    return found(config, vocabulary, precision)


def categorical(probabilities: Tensor) -> Tensor:
    """One draw from each distribution: (..., V), not necessarily normalised, to (...).

    In float64: float32 noise cuts the tails and makes text less varied than the model's
    (Zheng et al. 2024, arXiv 2409.02908, section 4).
    """
    flat = probabilities.double().flatten(0, -2)
    return torch.multinomial(flat, 1).view(probabilities.shape[:-1])

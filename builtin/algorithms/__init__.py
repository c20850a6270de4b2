"""The algorithms: a file each. Which one a configuration means is looked up in `ALGORITHMS`."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from backbone import DiT
from ema import Average
from vocabulary import Vocabulary

ALGORITHMS = {
    "mdlm": "MDLM",
    "duo": "Duo",
    "flm": "FLM",
    "fmlm": "FMLM",
    "candi": "CANDI",
    "distillation": "DCD",
    "sdtt": "SDTT",
    "di4c": "Di4C",
    "rdlm": "RDLM",
    "ar": "AR",
}

# Settings of the papers' trainers, with the values that are there; () where any is. A trainer
# that has no such setting counts as having None.
Settings = Mapping[str, tuple[Any, ...]]
EVERYWHERE: Settings = {
    "noise.type": ("log-linear", "loglinear", None),
    "training.finetune_path": (None,),
}


class Algorithm(nn.Module):
    """A backbone with what is learnt from its output. Subclasses are the files beside this one.

    Noise levels are spread by the caller: `uniform` (B,) holds numbers in [0, 1), each drawn from
    its own stratum of the global batch (the low-discrepancy sampler of Kingma et al. 2021,
    arXiv 2107.00630, appendix I.1).
    """

    backbone: DiT
    bounded = True  # whether `measure` bounds the tokens' -log p
    fixed: ClassVar[Settings] = {}  # what of the papers' settings is there

    @property
    def words(self) -> int:
        """How many tokens rows may hold."""
        return self.backbone.shape.vocabulary

    def forward(self, tokens: Tensor, uniform: Tensor, step: int) -> Tensor:
        """Terms whose mean is the training loss of clean rows (B, L), after `step` updates."""
        raise NotImplementedError

    def measure(self, tokens: Tensor, uniform: Tensor) -> Tensor:
        """What validation averages (B, L): nats of a bound on -log p, or of a loss."""
        raise NotImplementedError

    def sample(self, count: int, steps: int) -> Tensor:
        """Draw `count` rows (count, L) in `steps` steps."""
        raise NotImplementedError

    def load_teacher(self) -> None:
        """Called once before training: the teacher's weights, and the student's from them."""

    def begin(self, step: int, average: Average) -> None:
        """Called before the update that follows `step` others: a teacher may change."""

    def beside(self) -> dict[str, Any]:
        """What a checkpoint must hold beside the backbone, to go on from."""
        return {}

    def load_beside(self, state: dict[str, Any]) -> None:
        """Go back to a state of `beside`."""


def build(config: DictConfig, vocabulary: Vocabulary, precision: torch.dtype) -> Algorithm:
    """The algorithm that `config.algo.name` names, its weights new.

    A setting with another value than is there ends the program in one line.
    """
    name = config.algo.name
    found = getattr(import_module(f"algorithms.{name}"), ALGORITHMS[name])
    for key, values in {**EVERYWHERE, **found.fixed}.items():
        value = OmegaConf.select(config, key)
        if values and value not in values:
            sys.exit(f"{name}: {key}={value}: {' or '.join(map(str, values))} is what there is")
    return found(config, vocabulary, precision)


def categorical(probabilities: Tensor) -> Tensor:
    """One draw from each distribution: (..., V), not necessarily normalised, to (...).

    In float64: float32 noise cuts the tails and makes text less varied than the model's
    (Zheng et al. 2024, arXiv 2409.02908, section 4).
    """
    flat = probabilities.double().flatten(0, -2)
    return torch.multinomial(flat, 1).view(probabilities.shape[:-1])

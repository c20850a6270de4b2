"""MDLM: masked diffusion with the SUBS parameterisation.

Sahoo et al. 2024, "Simple and Effective Masked Diffusion Language Models" (arXiv 2406.07524).
A token is kept with probability alpha(t) and masked otherwise (section 3.1); the reverse process
keeps what is unmasked and never predicts the mask (3.2.3, "SUBS"). In continuous time the
negative ELBO is a weighted cross-entropy of the masked tokens (3.3, equation 10)

    E_t  -alpha'(t) / (1 - alpha(t))  sum_{i masked} -log x_theta(x_i | z_t),

with the log-linear schedule alpha(t) = 1 - (1 - e) t (appendix E.1), whose weight is 1 / t. Like
the authors' trainer, t is at least `sampling_eps` here: the bound misses what lies below, which
is under `sampling_eps` of the loss of predicting one token from all the others. With e above 0 it
also misses what a row that is nearly all masked adds (a share e of the loss of one that is), as
theirs does: figures are too low by up to 0.1 % in nats at the recipes' e of 1e-3.
"""

from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from omegaconf import DictConfig
from torch import Tensor

from algorithms import Algorithm, Settings, categorical
from backbone import DiT, Shape
from vocabulary import Vocabulary

NEVER = -1e6  # added to the mask's logit
LOWEST = 1e-3  # of times in validation, where the weight 1 / t would make it noisy


class Masked(Algorithm):
    """The absorbing-state process and a denoiser over `size` states, of which `mask` is one."""

    def __init__(
        self, config: DictConfig, size: int, mask: int, precision: torch.dtype, **parts: bool
    ) -> None:
        super().__init__()
        self.mask = mask
        self.backbone = DiT(Shape.of(config.model, size, **parts), precision)
        self.timed = config.time_conditioning
        self.first_time = config.training.sampling_eps
        self.noise_floor = config.noise.eps

    def kept(self, t: Tensor) -> Tensor:
        """alpha(t): the probability that a token is not yet masked at time t in [0, 1]."""
        return 1 - (1 - self.noise_floor) * t

    def logits(self, noisy: Tensor, alpha: Tensor) -> Tensor:
        """Scores of every token for the masked positions of `noisy` (B, L): (B, L, V)."""
        sigma = -alpha.log() if self.timed else torch.zeros_like(alpha)
        return self.unmasked(self.backbone(noisy, sigma))

    def unmasked(self, logits: Tensor) -> Tensor:
        """The same, but never the mask."""
        never = torch.zeros(logits.shape[-1], device=logits.device)
        never[self.mask] = NEVER
        return logits + never

    def masked(self, tokens: Tensor, t: Tensor) -> Tensor:
        """Which tokens (B, L) are masked at times t (B,)."""
        return torch.rand(tokens.shape, device=tokens.device) < (1 - self.kept(t))[:, None]

    def measure(self, tokens: Tensor, uniform: Tensor) -> Tensor:
        """One term of equation 10 a token."""
        return self.bound(tokens, max(self.first_time, LOWEST), uniform)

    def bound(self, tokens: Tensor, first: float, uniform: Tensor) -> Tensor:
        """The same, from time `first` on."""
        t = first + (1 - first) * uniform
        masked = self.masked(tokens, t)
        logits = self.logits(torch.where(masked, self.mask, tokens), self.kept(t))
        nll = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none")
        return nll.view(tokens.shape) * masked / t[:, None]

    @torch.no_grad()
    def sample(self, count: int, steps: int) -> Tensor:
        """Ancestral sampling: from t to s a masked token is revealed with chance (t - s) / t.

        A step that reveals nothing costs no evaluation where the denoiser does not see the time.
        """
        device = self.backbone.device
        times = torch.linspace(1, 0, steps + 1).tolist()
        tokens = torch.full((count, self.backbone.shape.length), self.mask, device=device)
        probabilities = None
        for t, s in pairwise(times):
            if probabilities is None or self.timed:
                alpha = self.kept(torch.full((count,), t, device=device))
                probabilities = self.logits(tokens, alpha).softmax(-1)
            hidden = tokens == self.mask
            revealed = hidden & (torch.rand(tokens.shape, device=device) < (t - s) / t)
            if revealed.any():
                tokens = torch.where(revealed, categorical(probabilities), tokens)
                probabilities = None
        return tokens


class MDLM(Masked):
    """The denoiser, trained by its bound."""

    fixed: ClassVar[Settings] = {
        "diffusion": ("absorbing_state",),
        "parameterization": ("subs",),
        "T": (0,),
    }

    def __init__(self, config: DictConfig, vocabulary: Vocabulary, precision: torch.dtype) -> None:
        super().__init__(config, *vocabulary.with_mask, precision)

    def forward(self, tokens: Tensor, uniform: Tensor, step: int = 0) -> Tensor:
        """The bound."""
        return self.bound(tokens, self.first_time, uniform)

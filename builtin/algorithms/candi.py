"""CANDI: masks and Gaussian noise at once.

Pynadath et al. 2025, "CANDI: Hybrid Discrete-Continuous Diffusion Models" (arXiv 2510.22510). A
token is revealed with probability alpha(t), as in MDLM; one that is not still shows its one-hot
row under Gaussian noise, so the denoiser sees something at every place. The noise level is set
by what it does to a token: the mean share of other tokens whose coordinate beats its own rises
evenly from `min_percentile` to `max_percentile` with the share of hidden tokens (the paper's
"structured noising"). The loss is MDLM's: cross-entropy of the hidden tokens, weighted by
-alpha' / (1 - alpha). It bounds nothing that the noise gives away, so validation averages a loss.

The rows that the denoiser sees are embedded with embeddings of length one; a hidden place gets
the mean of the mask's and of its scaled noisy row's.
"""

import math
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from omegaconf import DictConfig
from torch import Tensor

from algorithms import Algorithm, Settings, categorical
from backbone import DiT, Shape
from vocabulary import Vocabulary


class CANDI(Algorithm):
    """The hybrid process and its denoiser."""

    bounded = False
    fixed: ClassVar[Settings] = {
        "algo.pure_continuous": (False,),
        "algo.is_embed": (False,),
        "algo.sampler": ("cached",),
    }

    def __init__(self, config: DictConfig, vocabulary: Vocabulary, precision: torch.dtype) -> None:
        super().__init__()
        algo = config.algo
        self.size = vocabulary.with_pad
        self.backbone = DiT(Shape.of(config.model, self.size + 1), precision)
        self.first_time = config.training.sampling_eps
        self.noise_floor = config.noise.eps
        self.share, self.stride, self.temperature = algo.mixed_coeff, algo.step_size, algo.temp
        self.percentiles = (algo.min_percentile, algo.max_percentile)

    def sigma(self, hidden: Tensor) -> Tensor:
        """The noise at which another coordinate beats the token's as often as wanted.

        It does with probability Phi(-1 / (sigma sqrt 2)); the share is of all `size` tokens.
        """
        low, high = self.percentiles
        share = (low + hidden.double() * (high - low)) * self.size / (self.size - 1)
        return (-1 / (math.sqrt(2) * torch.special.ndtri(share))).to(hidden.dtype)

    def embeddings(self) -> tuple[Tensor, Tensor]:
        """Of the tokens (size, hidden) and of the mask (hidden), each of length one."""
        table = F.normalize(self.backbone.vocab_embed.embedding, dim=-1)
        return table[:-1], table[-1]

    def log_mean(
        self, rows: Tensor, tokens: Tensor, revealed: Tensor, hidden: Tensor, sigma: Tensor
    ) -> Tensor:
        """log x_theta (B, L, size).

        `rows` (B, L, hidden size) are embedded noisy rows, `tokens` the revealed ones, `hidden`
        and `sigma` (B,) the two noise levels.
        """
        table, mask = self.embeddings()
        scaled = rows / (1 + sigma**2).sqrt()[:, None, None]
        seen = self.share * mask + (1 - self.share) * scaled
        seen = torch.where(revealed[..., None], table[tokens], seen)
        logits = self.backbone.body(seen, -torch.log1p(-hidden))[..., :-1] / self.temperature
        return logits.log_softmax(-1)

    def corrupted(self, tokens: Tensor, sigma: Tensor) -> Tensor:
        """One-hot rows under noise, embedded: (B, L, hidden size)."""
        noise = torch.randn(*tokens.shape, self.size, device=tokens.device)
        table = self.embeddings()[0]
        rows = F.one_hot(tokens, self.size) + sigma[:, None, None] * noise
        return rows.to(table.dtype) @ table

    def forward(self, tokens: Tensor, uniform: Tensor, step: int = 0) -> Tensor:
        """Weighted cross-entropy of the hidden tokens (B, L)."""
        t = self.first_time + (1 - self.first_time) * uniform
        hidden = (1 - self.noise_floor) * t  # 1 - alpha
        kept = torch.rand(tokens.shape, device=tokens.device) >= hidden[:, None]
        # The authors hide by drawing a token, which may be the same: then it stays revealed.
        drawn = torch.randint(0, self.size + 1, tokens.shape, device=tokens.device)
        revealed = kept | (drawn == tokens)
        sigma = self.sigma(hidden)
        rows = self.corrupted(tokens, sigma)
        log_mean = self.log_mean(rows, tokens, revealed, hidden, sigma)
        nll = -log_mean.gather(-1, tokens[..., None])[..., 0]
        return nll * ~revealed / t[:, None]

    def measure(self, tokens: Tensor, uniform: Tensor) -> Tensor:
        """The loss itself."""
        return self(tokens, uniform)

    @torch.no_grad()
    def sample(self, count: int, steps: int) -> Tensor:
        """Both processes side by side, in embedding space (the paper's approximate sampler).

        At each step the noisy rows go along the Gaussian flow to the denoiser's draw, whose slope
        is (x - draw) / sigma, and some places are revealed at their draws.
        """
        device, length = self.backbone.device, self.backbone.shape.length
        times = torch.linspace(0.999, 1e-5, steps + 1, device=device)
        sigmas = self.sigma(times)
        table = self.embeddings()[0]
        noise = torch.randn(count, length, self.size, device=device) * sigmas[0]
        rows, tokens = noise @ table, noise.argmax(-1)
        revealed = torch.zeros_like(tokens, dtype=torch.bool)
        for (t, s), (high, low) in zip(pairwise(times), pairwise(sigmas), strict=True):
            levels = t.expand(count), high.expand(count)
            drawn = categorical(self.log_mean(rows, tokens, revealed, *levels).exp())
            tokens = torch.where(revealed, tokens, drawn)
            rows = rows - self.stride * (1 - low / high) * (rows - table[tokens])
            revealed |= torch.rand(tokens.shape, device=device) < (t - s) / t
        return tokens

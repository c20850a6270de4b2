"""FMLM: FLM's flow map, so that one step goes any distance.

Lee et al. 2026, "Flow Map Language Models" (arXiv 2602.16813, second version). The map from time
s to t along the flow is written with a two-time denoiser D_{s,t}, again a distribution,

    X_{s,t}(x) = (1 - t) / (1 - s) x + (t - s) / (1 - s) D_{s,t}(x),

so D_{s,s} is FLM's denoiser. Since X_{s,t} is X_{u,t} after X_{s,u}, a long step's denoiser is a
mixture of those of its halves,

    D_{s,t}(x) = w D_{s,u}(x) + (1 - w) D_{u,t}(X_{s,u}(x)),  w = (1-t)(u-s) / ((1-u)(t-s)),

and progressive self-distillation (PSD) learns it by cross-entropy with the right side, which is
held fixed (Boffi et al. 2025, arXiv 2505.18825). A part of each batch learns the diagonal from
the teacher; a few rows learn the step from 0 to 1. All times are FLM's clock times, u halfway.
"""

from itertools import pairwise
from typing import ClassVar

import torch
from omegaconf import DictConfig
from torch import Tensor

import teacher
from algorithms import Settings
from algorithms.flm import FLM, SOFTCAP
from backbone import DiT, Shape
from vocabulary import Vocabulary

TINY = 1e-8


class FMLM(FLM):
    """The flow map, its denoiser, and the flow that it is distilled from."""

    two_times = True
    fixed: ClassVar[Settings] = {
        "algo.double_temb": (True,),
        "algo.learnable_loss_weighting": (False,),
        "algo.distillation_method": ("PSD",),
        "algo.use_mse_loss_psd": (False,),
    }

    def __init__(self, config: DictConfig, vocabulary: Vocabulary, precision: torch.dtype) -> None:
        super().__init__(config, vocabulary, precision)
        self.algo = algo = config.algo
        self.diagonal, self.whole = algo.diagonal_fraction, 1 / algo.boundary_prob
        self.teacher = DiT(Shape.of(config.model, self.size, softcap=SOFTCAP), precision)
        self.teacher.requires_grad_(False)

    def load_teacher(self) -> None:
        """The teacher's averages; a student that starts from them hears no second time yet."""
        teacher.load(self.teacher, self.algo.teacher_path, averaged=True)
        if self.algo.initialize_student_from_teacher:
            self.backbone.load_state_dict(self.teacher.state_dict(), strict=False)
            torch.nn.init.zeros_(self.backbone.sigma_map_prime.mlp[2].weight)
            torch.nn.init.zeros_(self.backbone.sigma_map_prime.mlp[2].bias)

    def train(self, mode: bool = True) -> "FMLM":
        """As usual, but the teacher never drops anything out."""
        super().train(mode)
        self.teacher.eval()
        return self

    def mapped(self, x: Tensor, now: Tensor, then: Tensor) -> Tensor:
        """log D_{now,then} (B, L, V) at clock times (B,)."""
        return self.backbone(x, now, then).log_softmax(-1)

    def times(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Clock times of a step's two ends, equal ones on the diagonal."""
        kind, place = torch.rand(2, len(uniform), device=uniform.device)
        now = torch.where(kind < self.diagonal, uniform, place * (1 - uniform))
        then = torch.where(kind < self.diagonal, uniform, now + uniform)
        whole = 1 - kind < (1 - self.diagonal) * self.whole
        return now.masked_fill(whole, 0.0), then.masked_fill(whole, 1.0).clamp(max=1.0)

    def forward(self, tokens: Tensor, uniform: Tensor, step: int = 0) -> Tensor:
        """Cross-entropy with the fixed targets (B, L)."""
        now, then = self.times(uniform)
        x = self.mixed(tokens, self.clock.signal(now))
        target = self.target(x, now, then)
        return -(target * self.mapped(x, now, then)).sum(-1)

    @torch.no_grad()
    def target(self, x: Tensor, now: Tensor, then: Tensor) -> Tensor:
        """The teacher's denoiser on the diagonal, two half steps elsewhere: (B, L, V)."""
        target = torch.empty_like(x)
        diagonal = now == then
        if diagonal.any():
            target[diagonal] = self.teacher(x[diagonal], now[diagonal]).softmax(-1)
        if not diagonal.all():
            target[~diagonal] = self.halves(x[~diagonal], now[~diagonal], then[~diagonal])
        return target

    def halves(self, x: Tensor, now: Tensor, then: Tensor) -> Tensor:
        """The mixture of two half steps' denoisers."""
        half = (now + then) / 2
        s, u, t = (self.clock.signal(tau)[:, None, None] for tau in (now, half, then))
        first = self.mapped(x, now, half).exp()
        between = ((1 - u) * x + (u - s) * first) / (1 - s + TINY)
        second = self.mapped(between, half, then).exp()
        weight = (1 - t) * (u - s) / ((1 - u) * (t - s) + TINY)
        return weight * first + (1 - weight) * second

    def measure(self, tokens: Tensor, uniform: Tensor) -> Tensor:
        """FLM's loss, of the diagonal."""
        x = self.mixed(tokens, self.clock.signal(uniform))
        return -self.mapped(x, uniform, uniform).gather(-1, tokens[..., None])[..., 0]

    @torch.no_grad()
    def sample(self, count: int, steps: int) -> Tensor:
        """Steps of the map, even on the clock; the last gives the argmax of its denoiser."""
        device, length = self.backbone.device, self.backbone.shape.length
        x = torch.randn(count, length, self.size, device=device)
        for now, then in pairwise(torch.linspace(0, 1, steps + 1, device=device)):
            mean = self.mapped(x, now.expand(count), then.expand(count)).exp()
            s, t = self.clock.signal(now), self.clock.signal(then)
            x = ((1 - t) * x + (t - s) * mean) / (1 - s)
        return x.argmax(-1)

"""FLM: a flow from noise to one-hot rows.

Lee et al. 2026, "Flow Map Language Models" (arXiv 2602.16813). A row of one-hot tokens x_1 and
Gaussian noise x_0 are joined by x_t = (1 - t) x_0 + t x_1; the denoiser D(x_t), a distribution at
each place, is learnt by cross-entropy with the token, and the flow's velocity is
(D(x_t) - x_t) / (1 - t). Times are drawn evenly, and told to the network, on a clock on which the
probability that the argmax is already right passes evenly (the paper's time reparameterisation):
for a large vocabulary nearly all of that happens in a narrow range of t.

The flow has a likelihood only through its divergence, which nobody reports; what validation
averages here is the denoising loss.
"""

from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from omegaconf import DictConfig
from torch import Tensor

from algorithms import Algorithm, Settings
from argmax import Clock
from backbone import DiT, Shape
from vocabulary import Vocabulary

SOFTCAP = 50.0  # of the authors' attention


class FLM(Algorithm):
    """The flow and its denoiser."""

    bounded = False
    two_times = False
    fixed: ClassVar[Settings] = {
        "algo.double_temb": (False,),
        "algo.learnable_loss_weighting": (False,),
    }

    def __init__(self, config: DictConfig, vocabulary: Vocabulary, precision: torch.dtype) -> None:
        super().__init__()
        self.size = vocabulary.with_pad
        shape = Shape.of(config.model, self.size, softcap=SOFTCAP, two_times=self.two_times)
        self.backbone = DiT(shape, precision)
        self.clock = Clock(self.size)

    def denoised(self, x: Tensor, tau: Tensor) -> Tensor:
        """log D (B, L, V) of x (B, L, V) at clock times tau (B,)."""
        return self.backbone(x, tau).log_softmax(-1)

    def mixed(self, tokens: Tensor, t: Tensor) -> Tensor:
        """x_t (B, L, V) at times t (B,)."""
        t = t[:, None, None]
        noise = torch.randn(*tokens.shape, self.size, device=tokens.device)
        return (1 - t) * noise + t * F.one_hot(tokens, self.size)

    def forward(self, tokens: Tensor, uniform: Tensor, step: int = 0) -> Tensor:
        """Cross-entropy with the tokens (B, L)."""
        log_mean = self.denoised(self.mixed(tokens, self.clock.signal(uniform)), uniform)
        return -log_mean.gather(-1, tokens[..., None])[..., 0]

    def measure(self, tokens: Tensor, uniform: Tensor) -> Tensor:
        """The loss itself."""
        return self(tokens, uniform)

    @torch.no_grad()
    def sample(self, count: int, steps: int) -> Tensor:
        """Euler steps along the flow, even on the clock; the last goes to the argmax of D."""
        device, length = self.backbone.device, self.backbone.shape.length
        x = torch.randn(count, length, self.size, device=device)
        for now, then in pairwise(torch.linspace(0, 1, steps + 1, device=device)):
            mean = self.denoised(x, now.expand(count)).exp()
            s, t = self.clock.signal(now), self.clock.signal(then)
            x = x + (t - s) / (1 - s) * (mean - x)  # D itself where t is 1
        return x.argmax(-1)

"""Duo: uniform-state diffusion, trained at first through its Gaussian twin.

Sahoo et al. 2025, "The Diffusion Duality" (arXiv 2506.10892). A token is kept with probability
alpha(t) and otherwise replaced by a uniformly drawn one (section 2.2). With x~ = K alpha x + 1 -
alpha, and x~_theta likewise from the denoiser's mean, the reverse process jumps from z to token j
at rate -alpha' / (K alpha) x~_j / x~_z, and the negative ELBO in continuous time is the
Kullback-Leibler rate of the two jump processes (Schiff et al. 2024, arXiv 2412.10193, equation
18), here in a form without a second pass over the vocabulary (Rao-Blackwellised, section 3.2):

    -alpha' / (K alpha) [ K / x~_theta,z - K / x~_z
                          + sum_j x~_j / x~_z (log x~_j / x~_z - log x~_theta,j / x~_theta,z) ].

While the curriculum lasts (section 4.1), noisy tokens are the argmax of a Gaussian process with
log-noise-ratio gamma(t) rising evenly, and the denoiser sees its tempered softmax, which carries
more of the signal; alpha(t) is then the argmax's. The paper tabulates it; here it is integrated
for the times of each batch.

As in the release the bound leaves out times below `sampling_eps` and the signal that is left at
time 1, about 0.1 % of it in nats at the recipes' settings.
"""

from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from omegaconf import DictConfig
from torch import Tensor

from algorithms import Algorithm, Settings, categorical
from argmax import kept
from backbone import DiT, Shape
from vocabulary import Vocabulary


class Duo(Algorithm):
    """The uniform-state process, its denoiser and its Gaussian curriculum."""

    fixed: ClassVar[Settings] = {"algo.curriculum.mode": ("simple",)}

    def __init__(self, config: DictConfig, vocabulary: Vocabulary, precision: torch.dtype) -> None:
        super().__init__()
        self.size = vocabulary.with_pad
        self.backbone = DiT(Shape.of(config.model, self.size), precision)
        self.first_time = config.training.sampling_eps
        self.noise_floor = config.noise.eps
        self.curriculum = config.algo.curriculum

    def denoised(self, noisy: Tensor, alpha: Tensor) -> Tensor:
        """log x_theta (B, L, V) from ids or token weights, and alpha (B,)."""
        return self.backbone(noisy, -alpha.log()).log_softmax(-1)

    def loss(
        self, log_mean: Tensor, noisy: Tensor, tokens: Tensor, alpha: Tensor, slope: Tensor
    ) -> Tensor:
        """The KL rate (B, L), `slope` being alpha', from log x_theta (B, L, V)."""
        k, alpha, slope = self.size, alpha[:, None], slope[:, None]
        low, high = 1 - alpha, k * alpha + 1 - alpha  # of x~ away from and at the token
        log_blurred = torch.log(k * alpha[..., None] * log_mean.exp() + low[..., None])
        at_noisy = log_blurred.gather(-1, noisy[..., None])[..., 0]
        at_token = log_blurred.gather(-1, tokens[..., None])[..., 0]
        same = noisy == tokens
        here = torch.where(same, high, low)  # x~_z
        # sum_j x~_j / x~_z log x~_j / x~_z: the other tokens' terms, or the token's alone.
        own = torch.where(
            same, (k - 1) * low / high * (low / high).log(), high / low * (high / low).log()
        )
        theirs = (low * log_blurred.sum(-1) + (high - low) * at_token - k * at_noisy) / here
        return -slope / (k * alpha) * (k * (-at_noisy).exp() - k / here + own - theirs)

    def forward(self, tokens: Tensor, uniform: Tensor, step: int) -> Tensor:
        """The bound; before the curriculum's end, of the Gaussian process' argmax."""
        if step > self.curriculum.end:
            return self.measure(tokens, uniform)
        t = self.first_time + (1 - self.first_time) * uniform
        alpha, slope, gamma = self.gaussian(t)
        noise = torch.randn(*tokens.shape, self.size, device=tokens.device)
        blurred = self.blurred(tokens, gamma, noise)
        weights = (blurred / self.temperature(step)).softmax(-1)
        log_mean = self.denoised(weights, alpha)
        return self.loss(log_mean, blurred.argmax(-1), tokens, alpha, slope)

    def measure(self, tokens: Tensor, uniform: Tensor) -> Tensor:
        """One term of the negative ELBO a token, log-linear alpha."""
        t = self.first_time + (1 - self.first_time) * uniform
        alpha = 1 - (1 - self.noise_floor) * t
        replaced = torch.rand(tokens.shape, device=tokens.device) < (1 - alpha)[:, None]
        drawn = torch.randint(0, self.size, tokens.shape, device=tokens.device)
        noisy = torch.where(replaced, drawn, tokens)
        slope = torch.full_like(alpha, self.noise_floor - 1)
        return self.loss(self.denoised(noisy, alpha), noisy, tokens, alpha, slope)

    def gaussian(self, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """alpha and alpha' of the Gaussian process' argmax, and gamma, at times t (B,)."""
        low, high = self.curriculum.gamma_min, self.curriculum.gamma_max
        gamma = low + t.double() * (high - low)
        ratio = torch.exp(-gamma / 2)  # signal over noise: sigmoid(-gamma) / sigmoid(gamma), rooted
        alpha, by_ratio = kept(ratio, self.size)
        slope = by_ratio * -ratio / 2 * (high - low)
        return alpha.float(), slope.float(), gamma.float()

    def blurred(self, tokens: Tensor, gamma: Tensor, noise: Tensor) -> Tensor:
        """The Gaussian process at gamma (B,), variance preserved: (B, L, V)."""
        signal, blur = (torch.sigmoid(x).sqrt()[:, None, None] for x in (-gamma, gamma))
        return signal * F.one_hot(tokens, self.size) + blur * noise

    def temperature(self, step: int) -> float:
        """Of the softmax that the denoiser sees, from a power of ten to another."""
        first, last = self.curriculum.gumbel_tau_log10_start, self.curriculum.gumbel_tau_log10_end
        start, end = self.curriculum.start, self.curriculum.end
        done = min(1.0, max(0.0, (step - start) / (end - start))) if end > start else 0.0
        return 10 ** (first + done * (last - first))

    @torch.no_grad()
    def sample(self, count: int, steps: int) -> Tensor:
        """Ancestral sampling: q(z_s | z_t, x) with the denoiser's mean for x (equation 4)."""
        device, k = self.backbone.device, self.size
        tokens = torch.randint(0, k, (count, self.backbone.shape.length), device=device)
        for t, s in pairwise(torch.linspace(1, 0, steps + 1).tolist()):
            alpha_t, alpha_s = (1 - (1 - self.noise_floor) * time for time in (t, s))
            mean = self.denoised(tokens, torch.full((count,), alpha_t, device=device)).exp()
            between = alpha_t / alpha_s  # kept from s to t
            step = between * F.one_hot(tokens, k) + (1 - between) / k
            tokens = categorical(step * (alpha_s * mean.double() + (1 - alpha_s) / k))
        return tokens

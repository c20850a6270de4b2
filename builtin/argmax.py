"""How often the largest of many Gaussian coordinates is the one that holds the signal.

A one-hot row scaled by a and blurred with independent noise of standard deviation b has its
largest coordinate at the token with probability

    p(r) = E_z  Phi(z + r)^(K - 1),   z ~ N(0, 1),  r = a / b,

over K tokens; every other token is as likely as the next. So the argmax of a Gaussian process is
a uniform-state discrete one that keeps the token with probability (K p - 1) / (K - 1): the
operator T of Sahoo et al. 2025 ("The Diffusion Duality", arXiv 2506.10892, equation 10).
"""

import math

import numpy as np
import torch
from torch import Tensor

REACH, POINTS = 12.0, 1025  # of the quadrature over z; its error is below float64's


def kept(ratio: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """alpha(r) = (K p(r) - 1) / (K - 1) and its derivative, for each ratio (B,), in float64."""
    z = torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64, device=ratio.device)
    density = torch.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    shifted = z + ratio.double()[:, None]  # (B, points)
    log_below = torch.special.log_ndtr(shifted)
    p = (density * torch.exp((tokens - 1) * log_below)).sum(-1)
    slope = torch.exp((tokens - 2) * log_below - 0.5 * shifted**2) / math.sqrt(2 * math.pi)
    dp = (tokens - 1) * (density * slope).sum(-1)
    return (tokens * p - 1) / (tokens - 1), tokens * dp / (tokens - 1)


class Clock:
    """Times at which the argmax is right at an even pace.

    x_t = t x + (1 - t) noise keeps the token with probability alpha(t / (1 - t)), which for many
    tokens rises only in a narrow range of t. Clock time tau is that probability; `signal` is its
    inverse, tabulated and interpolated.
    """

    def __init__(self, tokens: int, points: int = 4097) -> None:
        t = torch.linspace(0, 1, points, dtype=torch.float64)[:-1]
        blocks = [kept(part / (1 - part), tokens)[0] for part in t.split(256)]
        # Forced to rise, where it is flat to rounding: an inverse needs it.
        tau = np.maximum.accumulate(torch.cat(blocks).clamp(0, 1).numpy())
        tau, first = np.unique(tau, return_index=True)
        self.tau = np.append(tau, 1.0) if tau[-1] < 1 else tau
        self.t = np.append(t.numpy()[first], 1.0)[: len(self.tau)]
        self.t[-1] = 1.0

    def signal(self, tau: Tensor) -> Tensor:
        """t at clock time tau, of any shape."""
        t = np.interp(tau.detach().double().cpu().numpy(), self.tau, self.t)
        return torch.from_numpy(np.asarray(t)).to(tau)

"""Paths on the sphere from a start to a corner, and the normal laws that stand in for them.

Jo & Hwang 2025, "Continuous Diffusion Model for Language Modeling" (arXiv 2502.11564): a token
e_k is a corner of the unit sphere in D dimensions, and noise is a bridge that drifts to it,

    dX = c(t) log_X(e_k) dt + sqrt(beta(t)) dB,   c(t) = beta(t) / int_t^1 beta  (section 3.2).

Its law at a time is close to a Riemannian normal, exp_mu(rho z), whose mean lies on the geodesic
from the start e_0 to e_k (section 4.1). `Law` finds alpha = the mean's share of the way and rho
from the means of <X, e_0> and <X, e_k>, which follow a two-dimensional process: no path in D
dimensions is ever simulated for training.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

NEAR = 1e-6


def log(base: Tensor, corners: Tensor) -> Tensor:
    """The drift's direction: sum_k corners_k log_base(e_k), tangent at base. All (..., D)."""
    angle = base.clamp(NEAR - 1, 1 - NEAR).arccos()
    pull = corners * angle / angle.sin()
    return pull - (pull * base).sum(-1, keepdim=True) * base


def exp(base: Tensor, vector: Tensor) -> Tensor:
    """Along the geodesic from base in the direction of the vector's tangent part."""
    tangent = vector - (vector * base).sum(-1, keepdim=True) * base
    length = tangent.norm(dim=-1, keepdim=True)
    ahead = base * length.cos() + tangent * torch.sinc(length / math.pi)
    return ahead / ahead.norm(dim=-1, keepdim=True)


@dataclass(frozen=True)
class Schedule:
    """Geometric noise, beta(t) = first^(1 - t) last^t."""

    first: float
    last: float

    def beta(self, t: Tensor) -> Tensor:
        """Noise power at times t."""
        return self.first ** (1 - t) * self.last**t

    def drift(self, t: Tensor) -> Tensor:
        """c(t), from the schedule's integral in closed form."""
        rate = math.log(self.last / self.first)
        return rate / torch.expm1(rate * (1 - t)) if rate else 1 / (1 - t)


def mean_cosine(rho: Tensor, dimensions: int) -> Tensor:
    """E cos(rho |z|) of normal z in as many dimensions, by quadrature over |z|.

    The release's formula has another factor exp(-rho^2 / 2), which its published settings mend by
    scaling rho by 1.14; here rho needs no scaling.
    """
    r = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000 * (8 + math.sqrt(dimensions))
    density = torch.exp((dimensions - 1) * r.log() - r**2 / 2)
    density = density / density.sum()
    return (density * torch.cos(rho[:, None] * r)).sum(-1)


class Law:
    """alpha(t) and rho(t) of the bridge from a start with <e_0, e_k> = `inner`."""

    def __init__(
        self, dimensions: int, inner: float, schedule: Schedule, steps: int, paths: int
    ) -> None:
        self.inner, self.outer = inner, math.sqrt(1 - inner**2)
        to_end, to_start = self.projections(dimensions, schedule, steps, paths)
        ratio = ((to_end / to_start - inner) / self.outer).clamp(min=0.0)
        self.alpha = ratio / (1 + ratio**2).sqrt()
        cosine = to_start * (1 + ratio**2).sqrt()
        self.rho = self.solved(cosine, dimensions - 1)
        self.alpha = torch.cat((self.alpha, torch.ones(1)))
        self.rho = torch.cat((self.rho, torch.zeros(1)))

    def projections(
        self, dimensions: int, schedule: Schedule, steps: int, paths: int
    ) -> tuple[Tensor, Tensor]:
        """Means of <X, e_k> and <X, e_0> at times 0, 1 / steps, ... below 1, by simulation.

        The pair (u, v) is a diffusion of its own: Ito's formula on the sphere.
        """
        generator = torch.Generator().manual_seed(0)
        u, v = torch.full((paths,), self.inner), torch.ones(paths)
        ends, starts, dt = [u.mean()], [v.mean()], 1 / steps
        for time in torch.arange(steps - 1) / steps:
            beta, pull = schedule.beta(time), schedule.drift(time)
            angle = u.clamp(NEAR - 1, 1 - NEAR).arccos()
            share = pull * angle / angle.sin()
            curve = 0.5 * (dimensions - 1) * beta
            first, second = torch.randn(2, paths, generator=generator) * (beta * dt).sqrt()
            side = (1 - u**2).clamp(min=NEAR).sqrt()
            shared = (self.inner - u * v) / side
            own = (1 - v**2 - shared**2).clamp(min=0).sqrt()
            u, v = (
                u + (share * (1 - u**2) - curve * u) * dt + side * first,
                v + (share * (self.inner - u * v) - curve * v) * dt + shared * first + own * second,
            )
            u, v = u.clamp(-1, 1), v.clamp(-1, 1)
            ends.append(u.mean())
            starts.append(v.mean())
        return torch.stack(ends), torch.stack(starts).clamp(min=NEAR)

    @staticmethod
    def solved(cosine: Tensor, dimensions: int) -> Tensor:
        """rho at which the mean cosine is as given, from a table up to the cosine's least."""
        rho = torch.linspace(0, 4, 8001, dtype=torch.float64)
        table = torch.cat([mean_cosine(part, dimensions) for part in rho.split(500)])
        falling = slice(0, int(table.argmin()) + 1)
        x, y = (-table[falling]).numpy(), rho[falling].numpy()
        return torch.from_numpy(np.interp(-cosine.double().numpy(), x, y)).float()

    def at(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """alpha and rho at times t, by interpolation."""
        place = t * (len(self.alpha) - 1)
        left = place.floor().long().clamp(max=len(self.alpha) - 2)
        share = place - left
        alpha, rho = self.alpha.to(t.device), self.rho.to(t.device)
        return (
            alpha[left] + share * (alpha[left + 1] - alpha[left]),
            rho[left] + share * (rho[left + 1] - rho[left]),
        )

    def drawn(self, start: Tensor, end: Tensor, t: Tensor) -> Tensor:
        """X_t by the law: start (D), end (B, L, D), t (B,)."""
        alpha, rho = (part[:, None, None] for part in self.at(t))
        mean = alpha / self.outer * (end - self.inner * start) + (1 - alpha**2).sqrt() * start
        return exp(mean, rho * torch.randn_like(end))

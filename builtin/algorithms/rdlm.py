"""RDLM: diffusion on the sphere, along mixture paths.

Jo & Hwang 2025, "Continuous Diffusion Model for Language Modeling" (arXiv 2502.11564; see
`sphere`). A token of a large vocabulary is written as digits in a small base (section 5.2, whose
base for LM1B is three), each of them a corner of a sphere with one corner more for the mask. The
network predicts each digit from a point of its path; the drift it stands for is the prediction's
mean of the corners' drifts (section 3.4). The mixture path starts at the sphere's middle up to
time `step_thr` and at the mask after it (section 4.3).

Training: cross-entropy, summed over a row as in the release, at times drawn more often where they
matter and weighed back (section 4.2). Validation: the bound of Girsanov's theorem (section 3.3),

    -log p(x) <= E int 1/2 |drift_theta - drift|^2 / beta dt,

on paths simulated step by step, summed over a token's digits. As in the release the last 1e-4 of
a path, and what it then takes to tell the token, are left out.
"""

import math
import sys
from typing import ClassVar

import torch
import torch.nn.functional as F
from omegaconf import DictConfig
from torch import Tensor, nn

from algorithms import Algorithm, Settings
from backbone import DiT, Shape
from sphere import Law, Schedule, exp, log
from vocabulary import Vocabulary

LAST = 1 - 1e-4  # of the times that the bound averages


class Coordinates(nn.Module):
    """Points of the sphere, as the network sees them."""

    def __init__(self, base: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(base, hidden)
        nn.init.kaiming_uniform_(self.embedding.weight, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, base) to (B, L, hidden)."""
        return self.embedding(x)


class RDLM(Algorithm):
    """The bridges and the network that predicts their ends."""

    fixed: ClassVar[Settings] = {"sde.mix_type": ("step",), "training.loss_type": ("ce",)}

    def __init__(self, config: DictConfig, vocabulary: Vocabulary, precision: torch.dtype) -> None:
        super().__init__()
        sde, weight = config.sde, config.scheduler
        if config.optim.name == "adam" and config.optim.weight_decay:
            sys.exit("rdlm: optim=adam has no weight decay here; optim=adamw has it")
        self.size, self.base = vocabulary.size, config.tokens
        self.digits = math.ceil(math.log(self.size) / math.log(self.base))
        while self.base**self.digits < self.size:
            self.digits += 1
        self.backbone = DiT(Shape.of(config.model, self.base), precision)
        self.backbone.vocab_embed = Coordinates(self.base, config.model.hidden_size)
        self.schedule = Schedule(weight.beta_0, weight.beta_f)
        self.threshold, self.paths = sde.step_thr, config.eval.simul_steps
        self.weights = (weight.left, weight.right, weight.lb, weight.ub)
        size = (self.schedule, sde.preprocess_steps, sde.preprocess_paths)
        self.masked = Law(self.base + 1, 0.0, *size)
        self.uniform = Law(self.base + 1, 1 / math.sqrt(self.base + 1), *size)
        for law in (self.masked, self.uniform):
            law.rho *= sde.rho_scale

    @property
    def words(self) -> int:
        """Of the tokenizer: the network itself knows digits only."""
        return self.size

    def corners(self, tokens: Tensor) -> Tensor:
        """Tokens (B, L) as corners (B, L digits, base + 1), the lowest digit first."""
        powers = self.base ** torch.arange(self.digits, device=tokens.device)
        digits = tokens[..., None] // powers % self.base
        return F.one_hot(digits.flatten(1), self.base + 1).float()

    def words_of(self, digits: Tensor) -> Tensor:
        """Digits (B, L digits) as tokens (B, L); what is no token is the first."""
        powers = self.base ** torch.arange(self.digits, device=digits.device)
        words = (digits.view(len(digits), -1, self.digits) * powers).sum(-1)
        return words.masked_fill(words >= self.size, 0)

    def starts(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The mask's corner and the sphere's middle, each (base + 1)."""
        size = self.base + 1
        return torch.eye(size, device=device)[-1], torch.full((size,), size**-0.5, device=device)

    def predicted(self, x: Tensor, t: Tensor) -> Tensor:
        """Scores of the digits (B, L digits, base) at x (B, L digits, base + 1)."""
        return self.backbone(x[..., : self.base], t)

    def forward(self, tokens: Tensor, uniform: Tensor, step: int = 0) -> Tensor:
        """Cross-entropy of each row (B,), weighed for how its time was drawn."""
        t, weight = self.time(uniform)
        ends = self.corners(tokens)
        mask, middle = self.starts(tokens.device)
        early = (t < self.threshold)[:, None, None]
        late = self.masked.drawn(mask, ends, t)
        x = torch.where(early, self.uniform.drawn(middle, ends, t), late)
        scores = self.predicted(x, t).flatten(0, 1)
        nll = F.cross_entropy(scores, ends.argmax(-1).flatten(), reduction="none")
        return nll.view(len(tokens), -1).sum(-1) * weight

    def time(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Times with a density of `ub` from `left` to `right` and `lb` outside, and 1 / density."""
        left, right, outside, inside = self.weights
        reached = torch.tensor([0.0, left * outside, 0.0, 0.0], dtype=torch.float64)
        reached[2] = reached[1] + (right - left) * inside
        reached[3] = reached[2] + (1 - right) * outside
        places = torch.tensor([0.0, left, right, 1.0], dtype=torch.float64)
        wanted = uniform.double().cpu() * reached[3]
        part = torch.searchsorted(reached, wanted, right=True).clamp(1, 3)
        share = (wanted - reached[part - 1]) / (reached[part] - reached[part - 1])
        t = places[part - 1] + share * (places[part] - places[part - 1])
        density = torch.where(part == 2, inside, outside) / reached[3]
        return t.to(uniform).clamp(max=LAST), (1 / density).to(uniform)

    def measure(self, tokens: Tensor, uniform: Tensor) -> Tensor:
        """The bound at one time of each row (B, L), on a path simulated up to it."""
        t = LAST * uniform
        ends = self.corners(tokens)
        x = self.walked(ends, t)
        scale = self.schedule.drift(t)[:, None, None]
        mean = F.pad(self.predicted(x, t).softmax(-1), (0, 1))
        error = scale * (log(x, mean) - log(x, ends))
        rate = 0.5 * error.square().sum(-1) / self.schedule.beta(t)[:, None]
        return LAST * rate.view(*tokens.shape, self.digits).sum(-1)

    def walked(self, ends: Tensor, t: Tensor) -> Tensor:
        """X_t (B, L, D) by a geodesic random walk from the path's start at that time."""
        mask, middle = self.starts(ends.device)
        start = torch.where((t < self.threshold)[:, None, None], middle, mask)
        x, dt = start.expand_as(ends), t / self.paths
        for place in range(self.paths):
            now = dt * place
            pull = (self.schedule.drift(now) * dt)[:, None, None]
            noise = (self.schedule.beta(now) * dt).sqrt()[:, None, None]
            x = exp(x, pull * log(x, ends) + noise * torch.randn_like(x))
        return x

    @torch.no_grad()
    def sample(self, count: int, steps: int) -> Tensor:
        """A geodesic random walk with the network's drift; at its end the largest coordinate."""
        device = self.backbone.device
        start = self.starts(device)[int(self.threshold > 0)]
        x = start.expand(count, self.backbone.shape.length * self.digits, -1)
        dt = LAST / steps
        for place in range(steps):
            t = torch.full((count,), place * dt, device=device)
            mean = F.pad(self.predicted(x, t).softmax(-1), (0, 1))
            drift = self.schedule.drift(t)[:, None, None] * log(x, mean)
            noise = (self.schedule.beta(t) * dt).sqrt()[:, None, None]
            x = exp(x, drift * dt + noise * torch.randn_like(x))
        return self.words_of(x[..., : self.base].argmax(-1))

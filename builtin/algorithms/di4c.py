"""Di4C: a mixture that learns how the tokens of one step depend on each other.

Hayakawa et al. 2024, "Distillation of Discrete Diffusion through Dimensional Correlations"
(arXiv 2410.08709). A step's tokens are independent given the noisy row, which costs quality when
a step reveals many. The student is told a random number z as one token more, so its prediction is
a mixture over z of products, p(x | x_t) = E_z prod_i p(x_i | x_t, z), with all that a mixture can
express of correlations (section 3.1). Means over z are taken over `latent_bsize` draws. With
mean_z for those, the losses (sections 3.2 and 3.3, control variates as in section 4.2) are

  data         c(t) of the joint's gain over its marginals, log mean_z prod_i p(x_i | z) -
               sum_i log mean_z p(x_i | z), at the true row, and KL(teacher | marginals);
  distillation below time `distil_delta`: mean_z KL(teacher | p(. | z));
  consistency  above it: what the student predicts from x_s, one teacher step of 1 / T on from
               x_t, should be what it predicts from x_t: the joint's gain at rows drawn from the
               former, and KL of their marginals.

All is summed over a row's tokens; a batch shares one time.
"""

import math
import sys
from typing import ClassVar

import torch
from omegaconf import DictConfig
from torch import Tensor

import teacher
from algorithms import Settings, categorical
from algorithms.mdlm import LOWEST, Masked
from backbone import DiT, Shape
from vocabulary import Vocabulary

HIDDEN_SHARE = 0.3  # of batches with a time below `distil_delta`


def averaged(log_p: Tensor, dim: int) -> Tensor:
    """log of the mean of probabilities along `dim`, of their logarithms."""
    return log_p.logsumexp(dim) - math.log(log_p.shape[dim])


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p | q) over the last dimension, summed over the one before it."""
    return (log_p.exp() * (log_p - log_q)).sum((-1, -2))


def gain(log_p: Tensor, rows: Tensor) -> Tensor:
    """How much likelier the mixture finds whole rows than its marginals do, in nats.

    log_p (B, Z, L, V), rows (B, N, L): (B, N).
    """
    places = rows.transpose(1, 2)[:, None].expand(-1, log_p.shape[1], -1, -1)
    found = log_p.gather(-1, places)  # (B, Z, L, N)
    return averaged(found.sum(2), 1) - averaged(found, 1).sum(1)


class Di4C(Masked):
    """The mixture student and its teacher, a product model."""

    fixed: ClassVar[Settings] = {
        "dlb_student_init": ("teacher", "scratch"),
        "is_teacher_di4c": (False,),
        "parameterization.start_from_hf": (False,),
    }

    def __init__(self, config: DictConfig, vocabulary: Vocabulary, precision: torch.dtype) -> None:
        super().__init__(config, vocabulary.size + 1, vocabulary.size, precision, latent=True)
        self.config = config
        if config.distil_delta * config.T <= 1:  # else one of the losses would never be taken
            sys.exit(f"di4c: no step of T={config.T} is below distil_delta={config.distil_delta}")
        shape = Shape.of(config.model, vocabulary.size + 1)
        self.teacher = DiT(shape, precision).requires_grad_(False)

    def load_teacher(self) -> None:
        """The teacher, and where a student starts from it, all but its number's token."""
        path = self.config.parameterization.checkpoint_path
        teacher.load(self.teacher, path)
        if self.config.dlb_student_init == "teacher":
            teacher.load(self.backbone, path, new=("latent_projection.",))

    def train(self, mode: bool = True) -> "Di4C":
        """As usual, but the teacher never drops anything out."""
        super().train(mode)
        self.teacher.eval()
        return self

    def told(self, alpha: Tensor) -> Tensor:
        """The noise level that the networks are told."""
        return -alpha.log() if self.timed else torch.zeros_like(alpha)

    def logits(self, noisy: Tensor, alpha: Tensor) -> Tensor:
        """The student's scores (B, L, V), each row with a random number of its own."""
        z = torch.rand(len(noisy), device=noisy.device)
        return self.unmasked(self.backbone(noisy, self.told(alpha), latent=z))

    def predicted(self, noisy: Tensor, t: Tensor) -> Tensor:
        """log p(x_i | x_t, z) of noisy rows (B, L): certain where a token is unmasked."""
        return self.carried(self.logits(noisy, self.kept(t)), noisy)

    def carried(self, logits: Tensor, noisy: Tensor) -> Tensor:
        """Log-probabilities, all on the token where it is unmasked (SUBS)."""
        certain = torch.full_like(logits, -1e6).scatter(-1, noisy[..., None], 0.0)
        return torch.where((noisy == self.mask)[..., None], logits.log_softmax(-1), certain)

    def forward(self, tokens: Tensor, uniform: Tensor, step: int = 0) -> Tensor:
        """The losses of each row (B,)."""
        t = self.time(uniform)
        noisy = torch.where(self.masked(tokens, t), self.mask, tokens)
        draws, (rows, length) = self.config.latent_bsize, tokens.shape
        many, times = noisy.repeat_interleave(draws, 0), t.repeat_interleave(draws, 0)
        with torch.no_grad():
            told = self.told(self.kept(t))
            target = self.carried(self.unmasked(self.teacher(noisy, told)), noisy)  # (B, L, V)
        student = self.predicted(many, times).view(rows, draws, length, -1)  # (B, Z, L, V)
        marginal = averaged(student, 1)
        loss = divergence(target, marginal)
        loss = loss - self.weight(t) * gain(student, tokens[:, None])[:, 0]
        if t[0] < self.config.distil_delta:
            return loss + divergence(target[:, None], student).mean(1)
        later = self.later(many, times, target.repeat_interleave(draws, 0))
        later = later.view(rows, draws, length, -1)
        drawn = categorical(later.exp())  # (B, Z, L)
        return loss + divergence(averaged(later, 1), marginal) - gain(student, drawn).mean(1)

    def time(self, uniform: Tensor) -> Tensor:
        """One time for the batch, (B,), on the grid of T steps.

        That of any row: each is from a stratum of its own, and the first one's are early times.
        """
        below, delta = torch.rand(()) < HIDDEN_SHARE, self.config.distil_delta
        one = uniform[torch.randint(len(uniform), ())]
        t = one * delta if below else delta + (1 - delta) * one
        return ((t * self.config.T).floor() + 1).expand(len(uniform)) / self.config.T

    def weight(self, t: Tensor) -> Tensor:
        """c(t): most where much is masked."""
        return self.config.alpha_const * torch.sigmoid(20 * (t - 0.5))

    @torch.no_grad()
    def later(self, noisy: Tensor, t: Tensor, target: Tensor) -> Tensor:
        """The student's prediction, without dropout, one step of the teacher on."""
        s = t - torch.minimum(torch.full_like(t, 1 / self.config.T), t / 2)
        chance = 1 - (1 - self.kept(s)) / (1 - self.kept(t))
        revealed = torch.rand(noisy.shape, device=noisy.device) < chance[:, None]
        revealed &= noisy == self.mask
        noisy = torch.where(revealed, categorical(target.exp()), noisy)
        mode = self.backbone.training
        self.backbone.eval()
        prediction = self.predicted(noisy, s)
        self.backbone.train(mode)
        return prediction

    def measure(self, tokens: Tensor, uniform: Tensor) -> Tensor:
        """The bound of the marginals, which are all that counts when steps are short."""
        t = LOWEST + (1 - LOWEST) * uniform
        masked = self.masked(tokens, t)
        noisy = torch.where(masked, self.mask, tokens)
        log_p = torch.stack([self.predicted(noisy, t) for _ in range(4)], 1)
        places = tokens[:, None, :, None].expand(-1, 4, -1, 1)
        return -averaged(log_p.gather(-1, places)[..., 0], 1) * masked / t[:, None]

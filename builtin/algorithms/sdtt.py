"""SDTT: self-distillation through time, in rounds.

Deschenaux & Gulcehre 2024, "Beyond Autoregression: Fast LLMs via Self-Distillation Through Time"
(arXiv 2410.21035). From a noisy row the teacher takes two ancestral steps of dt; what it
predicted for each token when it revealed it, and at the last step for those still masked, is what
the student should predict for all of them at once (section 3, algorithm 2). Each round dt doubles
and the student becomes the teacher, so a student of r rounds needs 2^r times fewer steps. The
divergence is KL(student | teacher), averaged over the masked tokens.

The mask is the last state, after the tokenizer's tokens.
"""

import sys
from typing import Any, ClassVar

import torch
from omegaconf import DictConfig
from torch import Tensor

import teacher
from algorithms import Settings, categorical
from algorithms.mdlm import Masked
from backbone import DiT
from ema import Average
from vocabulary import Vocabulary


class SDTT(Masked):
    """A masked-diffusion student with the teacher of its round."""

    fixed: ClassVar[Settings] = {
        "parameterization.distill_mode": ("kl-bwd",),
        "parameterization.use_ema_on_growth": (False,),
        "parameterization.start_from_hf": (False,),
    }

    def __init__(self, config: DictConfig, vocabulary: Vocabulary, precision: torch.dtype) -> None:
        super().__init__(config, vocabulary.size + 1, vocabulary.size, precision)
        self.plan = plan = config.parameterization
        last = (config.trainer.max_steps - 1) // plan.grow_dt_every
        fewest = plan.min_num_sampling_steps * plan.num_distill_steps**last
        if plan.orig_num_sampling_steps < fewest:
            sys.exit(f"sdtt: {last + 1} rounds reach below {plan.min_num_sampling_steps} steps")
        self.teacher = DiT(self.backbone.shape, precision).requires_grad_(False)

    def load_teacher(self) -> None:
        """Student and teacher start alike."""
        teacher.load(self.backbone, self.plan.checkpoint_path)
        self.teacher.load_state_dict(self.backbone.state_dict())

    def train(self, mode: bool = True) -> "SDTT":
        """As usual, but the teacher never drops anything out."""
        super().train(mode)
        self.teacher.eval()
        return self

    def begin(self, step: int, average: Average) -> None:
        """At a round's start the student becomes the teacher."""
        if step % self.plan.grow_dt_every == 0:
            self.teacher.load_state_dict(self.backbone.state_dict())

    def beside(self) -> dict[str, Any]:
        """The teacher, so that a stopped round goes on with its own."""
        return {"teacher": dict(self.teacher.state_dict())}

    def load_beside(self, state: dict[str, Any]) -> None:
        """Take a stored teacher."""
        self.teacher.load_state_dict(state["teacher"])

    def stride(self, step: int) -> float:
        """The teacher's dt in the round that `step` is in."""
        rounds = step // self.plan.grow_dt_every
        growth = self.plan.num_distill_steps**rounds
        return (1 - self.first_time) * growth / self.plan.orig_num_sampling_steps

    def forward(self, tokens: Tensor, uniform: Tensor, step: int) -> Tensor:
        """KL(student | teacher) of the masked tokens, scaled so that its mean is over those."""
        t = self.first_time + (1 - self.first_time) * uniform
        masked = self.masked(tokens, t)
        noisy = torch.where(masked, self.mask, tokens)
        target = self.target(noisy, t, self.stride(step))
        student = self.logits(noisy, self.kept(t)).log_softmax(-1)
        divergence = (student.exp() * (student - target)).sum(-1)
        return divergence * masked * (masked.numel() / masked.sum().clamp(min=1))

    @torch.no_grad()
    def target(self, noisy: Tensor, t: Tensor, dt: float) -> Tensor:
        """The teacher's log-probabilities (B, L, V) from steps t to t - dt and on to t - 2 dt."""
        target = torch.zeros(*noisy.shape, self.backbone.shape.vocabulary, device=noisy.device)
        for _ in range(self.plan.num_distill_steps):
            alpha = self.kept(t)
            sigma = -alpha.log() if self.timed else torch.zeros_like(t)
            prediction = self.unmasked(self.teacher(noisy, sigma)).log_softmax(-1)
            hidden = noisy == self.mask
            target = torch.where(hidden[..., None], prediction, target)
            then = (t - dt).clamp(min=0.0)
            chance = (1 - then / t)[:, None]
            revealed = hidden & (torch.rand(noisy.shape, device=noisy.device) < chance)
            noisy = torch.where(revealed, categorical(prediction.exp()), noisy)
            t = then.clamp(min=self.first_time)
        return target

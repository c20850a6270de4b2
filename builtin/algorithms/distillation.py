"""DCD: Duo's discrete consistency distillation, in rounds.

Sahoo et al. 2025, "The Diffusion Duality" (arXiv 2506.10892, section 4.2). Two points of one
Gaussian trajectory, at times t and s = t - dt with the same noise, give two noisy rows by their
argmax; the student at t learns the teacher's prediction at s. In each round dt doubles and the
student becomes the teacher, so that one step of the student replaces more and more of Duo's.
The divergence is KL(student | teacher), summed over the vocabulary at every place.
"""

import sys
from typing import Any, ClassVar

import torch
from omegaconf import DictConfig
from torch import Tensor

import teacher
from algorithms import Settings
from algorithms.duo import Duo
from backbone import DiT
from ema import Average
from vocabulary import Vocabulary


class DCD(Duo):
    """A Duo student with the teacher of its round."""

    fixed: ClassVar[Settings] = {
        "algo.curriculum.mode": ("simple", None),
        "algo.loss_type": ("kl-bwd",),
        "algo.linear_growth_dt": (False,),
        "training.finetune_path": (),
    }

    def __init__(self, config: DictConfig, vocabulary: Vocabulary, precision: torch.dtype) -> None:
        super().__init__(config, vocabulary, precision)
        self.algo = config.algo
        self.path = config.training.finetune_path
        self.teacher = DiT(self.backbone.shape, precision).requires_grad_(False)

    def load_teacher(self) -> None:
        """Student and teacher start alike."""
        if self.path is None:
            sys.exit("distillation: training.finetune_path, the teacher's checkpoint, is not given")
        teacher.load(self.backbone, self.path)
        self.teacher.load_state_dict(self.backbone.state_dict())

    def train(self, mode: bool = True) -> "DCD":
        """As usual, but the teacher never drops anything out."""
        super().train(mode)
        self.teacher.eval()
        return self

    def begin(self, step: int, average: Average) -> None:
        """At a round's start the student, or its average, becomes the teacher."""
        if step % self.algo.update_teacher_every == 0:
            values = average.shadow if self.algo.teacher_ema else self.backbone.parameters()
            for mine, theirs in zip(self.teacher.parameters(), values, strict=True):
                mine.copy_(theirs.detach())

    def beside(self) -> dict[str, Any]:
        """The teacher, so that a stopped round goes on with its own."""
        return {"teacher": dict(self.teacher.state_dict())}

    def load_beside(self, state: dict[str, Any]) -> None:
        """Take a stored teacher."""
        self.teacher.load_state_dict(state["teacher"])

    def stride(self, step: int) -> float:
        """dt of the round that `step` is in."""
        return 2 ** (step // self.algo.update_teacher_every) / self.algo.T

    def forward(self, tokens: Tensor, uniform: Tensor, step: int) -> Tensor:
        """KL(student at t | teacher at s), (B, L)."""
        dt = self.stride(step)
        t = (self.first_time + (1 - self.first_time) * uniform + dt).clamp(max=1.0)
        noise = torch.randn(*tokens.shape, self.size, device=tokens.device)
        (alpha_t, _, gamma_t), (alpha_s, _, gamma_s) = self.gaussian(t), self.gaussian(t - dt)
        later = self.blurred(tokens, gamma_t, noise).argmax(-1)
        earlier = self.blurred(tokens, gamma_s, noise).argmax(-1)
        student = self.denoised(later, alpha_t)
        with torch.no_grad():
            target = self.teacher(earlier, -alpha_s.log()).log_softmax(-1)
        return (student.exp() * (student - target)).sum(-1)

"""A causal language model: the judge of what the others write, and their yardstick.

The papers measure samples by their perplexity under a pretrained causal model ("generative
perplexity"). Where there is no network, that is one of these, trained on the same corpus. Its
likelihood is exact, token after token, so it is also what the others' bounds can be held against.
A row's first token (BOS, the same in every row) is given and costs nothing.
"""

import torch
import torch.nn.functional as F
from omegaconf import DictConfig
from torch import Tensor

from algorithms import Algorithm, categorical
from backbone import DiT, Shape
from vocabulary import Vocabulary


class AR(Algorithm):
    """The transformer, each place seeing those before it."""

    def __init__(self, config: DictConfig, vocabulary: Vocabulary, precision: torch.dtype) -> None:
        super().__init__()
        shape = Shape.of(config.model, vocabulary.with_pad, causal=True)
        self.backbone = DiT(shape, precision)
        self.begin_token = vocabulary.begin

    def logits(self, tokens: Tensor) -> Tensor:
        """Scores (B, L, V) of the token after each place of (B, L)."""
        return self.backbone(tokens, torch.zeros(len(tokens), device=tokens.device))

    def forward(self, tokens: Tensor, uniform: Tensor, step: int = 0) -> Tensor:
        """-log p of every token but the first, (B, L - 1)."""
        scores = self.logits(tokens[:, :-1]).flatten(0, 1)
        nll = F.cross_entropy(scores, tokens[:, 1:].flatten(), reduction="none")
        return nll.view(len(tokens), -1)

    def measure(self, tokens: Tensor, uniform: Tensor) -> Tensor:
        """-log p of every token (B, L), exactly."""
        return F.pad(self(tokens, uniform), (1, 0))

    @torch.no_grad()
    def sample(self, count: int, steps: int) -> Tensor:
        """Token after token; the number of steps is the row's length, whatever is asked."""
        rows = torch.full((count, 1), self.begin_token, device=self.backbone.device)
        for _ in range(self.backbone.shape.length - 1):
            chosen = categorical(self.logits(rows)[:, -1].softmax(-1))
            rows = torch.cat((rows, chosen[:, None]), 1)
        return rows

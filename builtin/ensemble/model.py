"""The model: a causal transformer with RMSNorm, SwiGLU, learned positions, tied embeddings."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Causal attention, then a gated layer, each added to its input; no biases, no dropout."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.mixed = nn.Linear(width, width, bias=False)
        self.gated_norm = nn.RMSNorm(width)
        self.gate = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """`x`, result: (batch, positions, width)."""
        batch, positions, width = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, positions, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, positions, width / heads)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mixed(mixed.transpose(1, 2).reshape(batch, positions, width))
        gate, value = self.gate(self.gated_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * value)


class Model(nn.Module):
    """Tokens to final states; the logits are states times the embedding, see `loss`."""

    def __init__(self, shape: Mapping[str, Any], context: int) -> None:
        """`shape` is the configuration's `model`."""
        super().__init__()
        width, layers = shape["width"], shape["layers"]
        self.embedding = nn.Embedding(shape["vocabulary"], width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(
            Block(width, shape["heads"], shape["hidden"]) for _ in range(layers)
        )
        self.norm = nn.RMSNorm(width)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                last = name.endswith(("mixed.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * layers) if last else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """`tokens`: (batch, positions); result: (batch, positions, width).

        Padding stands behind a row's tokens, so that nothing attends to it.
        """
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embedding(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def groups(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """The optimiser's groups: matrices decay, norms' gains do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]

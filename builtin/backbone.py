"""The diffusion transformer that the papers share.

MDLM (Sahoo et al. 2024, arXiv 2406.07524, appendix C.2) takes it from SEDD (Lou et al. 2023):
DiT blocks (Peebles & Xie 2022) with rotary positions and a noise level as the condition. Names
in the state are those of the papers' checkpoints, so that weights travel both ways.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from omegaconf import DictConfig
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """The sizes of a backbone, and the parts that only some papers' have.

    `vocabulary` counts the mask state, where there is one. `softcap` bounds attention scores
    (0: not at all). `two_times` adds the embedding of a second time (flow maps), `latent` a
    token that carries a random number (mixtures). `causal` lets a place see only itself and
    those before it.
    """

    vocabulary: int
    length: int
    hidden: int
    condition: int
    blocks: int
    heads: int
    dropout: float
    softcap: float = 0.0
    two_times: bool = False
    latent: bool = False
    causal: bool = False

    @classmethod
    def of(cls, model: DictConfig, vocabulary: int, **parts: bool | float) -> "Shape":
        """From the `model` group of a configuration (its names are the papers')."""
        names = ("length", "hidden_size", "cond_dim", "n_blocks", "n_heads", "dropout")
        return cls(vocabulary, *(model[name] for name in names), **parts)


class Norm(nn.Module):
    """Layer norm in the weights' own precision, with a gain and no bias."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """(..., size) of any precision to the weights'."""
        return F.layer_norm(x.to(self.weight.dtype), (x.shape[-1],), self.weight)


class Embedding(nn.Module):
    """Token embeddings; also of distributions over tokens, as their mean."""

    def __init__(self, vocabulary: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(vocabulary, hidden))
        nn.init.kaiming_uniform_(self.embedding, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        """Ids (B, L), or weights of each token (B, L, V), to (B, L, hidden)."""
        return x.to(self.embedding.dtype) @ self.embedding if x.ndim == 3 else self.embedding[x]


def waves(x: Tensor, half: int, last: int) -> Tensor:
    """Angles x / 10 000^(i / last) for i below `half`: (B,) to (B, half)."""
    places = torch.arange(half, dtype=x.dtype, device=x.device)
    return x[:, None] * torch.exp(-math.log(10_000) / last * places)


class NoiseLevel(nn.Module):
    """Sinusoidal features of a scalar, then a small network."""

    FEATURES = 256

    def __init__(self, condition: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(self.FEATURES, condition), nn.SiLU(), nn.Linear(condition, condition)
        )

    def forward(self, sigma: Tensor) -> Tensor:
        """(B,) to (B, condition)."""
        half = self.FEATURES // 2
        angles = waves(sigma.to(self.mlp[0].weight.dtype), half, half)
        return self.mlp(torch.cat((angles.cos(), angles.sin()), -1))


class Latent(nn.Sequential):
    """The token of a random number (Hayakawa et al. 2024, arXiv 2410.08709, appendix F)."""

    FEATURES = 128

    def __init__(self, hidden: int) -> None:
        wide = 4 * self.FEATURES
        super().__init__(nn.Linear(self.FEATURES, wide), nn.GELU(), nn.Linear(wide, hidden))

    def forward(self, z: Tensor) -> Tensor:
        """Numbers in [0, 1), (B,), to (B, 1, hidden)."""
        half = self.FEATURES // 2
        angles = waves(1000 * z.to(self[0].weight.dtype), half, half - 1)
        return super().forward(torch.cat((angles.sin(), angles.cos()), -1))[:, None]


class Rotary(nn.Module):
    """Rotary position embedding (Su et al. 2021), the halves of a head turning together."""

    inv_freq: Tensor

    def __init__(self, head: int) -> None:
        super().__init__()
        self.register_buffer("inv_freq", 10_000 ** (-torch.arange(0, head, 2).float() / head))

    def forward(self, length: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines, each (length, head), the sines of the first half negated."""
        places = torch.arange(length, device=self.inv_freq.device, dtype=self.inv_freq.dtype)
        angles = torch.outer(places, self.inv_freq)
        return angles.cos().repeat(1, 2), torch.cat((-angles.sin(), angles.sin()), -1)

    @staticmethod
    def turn(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """Rotate x (..., L, head) by the angles of its positions."""
        cos, sin = (part.to(x.dtype) for part in turns)
        return x * cos + x.roll(x.shape[-1] // 2, -1) * sin


class Block(nn.Module):
    """Attention and a network, each shifted, scaled and gated by the noise level (adaLN-zero)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        hidden = shape.hidden
        self.heads, self.dropout = shape.heads, shape.dropout
        self.softcap, self.causal = shape.softcap, shape.causal
        self.norm1 = Norm(hidden)
        self.attn_qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.attn_out = nn.Linear(hidden, hidden, bias=False)
        self.norm2 = Norm(hidden)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, 4 * hidden),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * hidden, hidden),
        )
        self.adaLN_modulation = nn.Linear(shape.condition, 6 * hidden)
        nn.init.zeros_(self.adaLN_modulation.weight)
        nn.init.zeros_(self.adaLN_modulation.bias)

    def forward(self, x: Tensor, condition: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """x (B, L, hidden), condition (B, condition)."""
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(condition)[
            :, None
        ].chunk(6, -1)  # each (B, 1, hidden)
        out = self.attention(self.norm1(x) * (1 + scale1) + shift1, turns)
        x = x + gate1 * F.dropout(out, self.dropout, self.training)
        out = self.mlp(self.norm2(x) * (1 + scale2) + shift2)
        return x + gate2 * F.dropout(out, self.dropout, self.training)

    def attention(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """Every position to every other (or earlier): (B, L, hidden) to the same."""
        batch, length, hidden = x.shape
        packed = self.attn_qkv(x).view(batch, length, 3, self.heads, hidden // self.heads)
        q, k, v = packed.permute(2, 0, 3, 1, 4)  # each (B, heads, L, head)
        q, k = Rotary.turn(q, turns), Rotary.turn(k, turns)
        if self.softcap:
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            mixed = (self.softcap * torch.tanh(scores / self.softcap)).softmax(-1).to(v.dtype) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.attn_out(mixed.transpose(1, 2).reshape(batch, length, hidden))


class Output(nn.Module):
    """Logits from the last block; zero at the start of training."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm_final = Norm(shape.hidden)
        self.linear = nn.Linear(shape.hidden, shape.vocabulary)
        self.adaLN_modulation = nn.Linear(shape.condition, 2 * shape.hidden)
        for layer in (self.linear, self.adaLN_modulation):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """(B, L, hidden) to (B, L, vocabulary)."""
        shift, scale = self.adaLN_modulation(condition)[:, None].chunk(2, -1)
        return self.linear(self.norm_final(x) * (1 + scale) + shift)


class DiT(nn.Module):
    """Tokens, or distributions over them, and a noise level to logits.

    The blocks and the head compute in `precision`; embeddings, norms, residuals, the condition
    and the result keep the weights' (float32).
    """

    def __init__(self, shape: Shape, precision: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.shape, self.precision = shape, precision
        self.vocab_embed = Embedding(shape.vocabulary, shape.hidden)
        self.sigma_map = NoiseLevel(shape.condition)
        if shape.two_times:
            self.sigma_map_prime = NoiseLevel(shape.condition)
        self.rotary_emb = Rotary(shape.hidden // shape.heads)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.blocks))
        self.output_layer = Output(shape)
        if shape.latent:
            self.latent_projection = Latent(shape.hidden)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.output_layer.linear.weight.device

    def forward(
        self, x: Tensor, sigma: Tensor, until: Tensor | None = None, latent: Tensor | None = None
    ) -> Tensor:
        """x (B, L) ids or (B, L, V) weights; sigma, `until` and `latent` (B,): logits (B, L, V)."""
        return self.body(self.vocab_embed(x), sigma, until, latent)

    def body(
        self,
        hidden: Tensor,
        sigma: Tensor,
        until: Tensor | None = None,
        latent: Tensor | None = None,
    ) -> Tensor:
        """From embedded tokens (B, L, hidden) on."""
        length = hidden.shape[1]
        condition = self.sigma_map(sigma)
        if until is not None:
            condition = condition + self.sigma_map_prime(until)
        condition = F.silu(condition)
        turns = self.rotary_emb(length)
        if latent is not None:  # one token more, at no position
            hidden = torch.cat((hidden, self.latent_projection(latent)), 1)
            cos, sin = turns
            turns = F.pad(cos, (0, 0, 0, 1), value=1.0), F.pad(sin, (0, 0, 0, 1))
        low = self.precision != torch.float32
        with torch.autocast(hidden.device.type, dtype=torch.bfloat16, enabled=low):
            for block in self.blocks:
                hidden = block(hidden, condition, turns)
            logits = self.output_layer(hidden[:, :length], condition)
        return logits.to(hidden.dtype)

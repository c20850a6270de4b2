"""GPT-2, read from its published snapshot: `config.json` and `model.safetensors`.

Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.3: the
decoder with the layer norms ahead of each part and one after the last. Weights under the names
of the Hub's files; the matrices are stored (inputs, outputs).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """The numbers of a GPT-2: blocks, heads, width, longest row, norms' epsilon, end of text."""

    n_layer: int
    n_head: int
    n_embd: int
    n_positions: int
    layer_norm_epsilon: float
    eos_token_id: int


class GPT2:
    """The model in `snapshot`, in float32, on a CPU.

    Raises ValueError where the configuration is another model's, KeyError where a tensor is
    missing.
    """

    def __init__(self, snapshot: Path) -> None:
        """Read configuration and weights."""
        config = json.loads((snapshot / "config.json").read_text())
        kind = (config.get("model_type"), config.get("activation_function", "gelu_new"))
        if kind != ("gpt2", "gelu_new"):
            raise ValueError(f"config.json: is of {kind}, not of a GPT-2")
        self.shape = Shape(**{name: config[name] for name in Shape.__annotations__})
        tensors = load_file(snapshot / "model.safetensors")
        self.tensors: Mapping[str, Tensor] = {
            name.removeprefix("transformer."): tensor.float() for name, tensor in tensors.items()
        }

    @torch.no_grad()
    def logits(self, ids: Tensor) -> Tensor:
        """Scores (B, L, V) of the token after each place of `ids` (B, L); L at most the longest."""
        words, places = self.tensors["wte.weight"], self.tensors["wpe.weight"]
        hidden = words[ids] + places[: ids.shape[1]]  # (B, L, D)
        for block in range(self.shape.n_layer):
            hidden = hidden + self._attention(self._norm(hidden, f"h.{block}.ln_1"), f"h.{block}")
            inner = self._linear(self._norm(hidden, f"h.{block}.ln_2"), f"h.{block}.mlp.c_fc")
            inner = F.gelu(inner, approximate="tanh")
            hidden = hidden + self._linear(inner, f"h.{block}.mlp.c_proj")
        return self._norm(hidden, "ln_f") @ words.T

    def _attention(self, hidden: Tensor, block: str) -> Tensor:
        rows, length, width = hidden.shape
        heads = self._linear(hidden, f"{block}.attn.c_attn")  # (B, L, 3 D)
        heads = heads.view(rows, length, 3, self.shape.n_head, width // self.shape.n_head)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # each (B, H, L, D / H)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self._linear(mixed.transpose(1, 2).flatten(2), f"{block}.attn.c_proj")

    def _linear(self, hidden: Tensor, name: str) -> Tensor:
        return hidden @ self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def _norm(self, hidden: Tensor, name: str) -> Tensor:
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return F.layer_norm(hidden, weight.shape, weight, bias, self.shape.layer_norm_epsilon)

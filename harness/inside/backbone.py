"""A diffusion transformer's weights in a checkpoint: which tensors they are, under plain names."""

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from .data import Inert
from .formats import Loaded, group_roots
from .refusal import Refusal
from .tensors import Tensor

Floats = npt.NDArray[np.float32]
EMBEDDING = "vocab_embed.embedding"
WEIGHT = "output_layer.linear.weight"
BIAS = "output_layer.linear.bias"
ROTARY = "rotary_emb.inv_freq"  # a constant: not in every checkpoint, and never averaged
_AROUND = (
    EMBEDDING,
    *(f"sigma_map.mlp.{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")),
    "output_layer.norm_final.weight",
    WEIGHT,
    BIAS,
    *(f"output_layer.adaLN_modulation.{part}" for part in ("weight", "bias")),
)
_BLOCK = (
    *("norm1.weight", "attn_qkv.weight", "attn_out.weight", "norm2.weight"),
    *(f"mlp.{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")),
    *(f"adaLN_modulation.{part}" for part in ("weight", "bias")),
)


def weights(loaded: Loaded, kind: str, blocks: int) -> dict[str, Floats]:
    """The weights of a backbone of `blocks` blocks, by plain name, in the checkpoint's order.

    `kind` is `raw` for those of the last step, `ema` for their averages. Raises Refusal where a
    name is missing, unknown or stands twice, or the tensors do not fit each other.
    """
    state = named(loaded)
    check_names(state, blocks)
    if kind == "ema":
        state |= _averages(loaded, state)
    arrays = {name: _array(name, tensor) for name, tensor in state.items()}
    check_rows(arrays)
    return arrays


def plain_name(name: str) -> str:
    """A name without the wrappers' prefixes: any `_orig_mod.`, then one `backbone.`."""
    while name.startswith("_orig_mod."):
        name = name.removeprefix("_orig_mod.")
    return name.removeprefix("backbone.")


def named(loaded: Loaded) -> dict[str, Tensor]:
    """The state's tensors by plain name. Raises Refusal where two get one name."""
    root = group_roots(loaded).get("state")
    if root is None:
        raise Refusal("no weights: neither a state_dict nor a file of tensors only")
    assert isinstance(loaded.value, dict)  # it has groups
    state = loaded.value[root] if root else loaded.value
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise Refusal(f"{name!s:.200}: no tensor under a name; a state holds nothing else")
        short = plain_name(name)
        if short in found:
            raise Refusal(f"{name:.200}: another tensor becomes {short:.200} too")
        found[short] = tensor
    return found


def expected(blocks: int) -> list[str]:
    """The names of a backbone of so many blocks, `rotary_emb.inv_freq` aside."""
    return [*_AROUND, *(f"blocks.{number}.{name}" for number in range(blocks) for name in _BLOCK)]


def check_names(state: Mapping[str, object], blocks: int) -> None:
    """Raises Refusal unless `state` has exactly the names of a backbone of `blocks` blocks."""
    numbers = {int(found[1]) for name in state if (found := re.match(r"blocks\.(\d{1,4})\.", name))}
    if numbers and max(numbers) + 1 != blocks:
        raise Refusal(f"a backbone of {max(numbers) + 1} blocks; the recipe's has {blocks}")
    wanted = expected(blocks)
    for names, what in (
        ([name for name in wanted if name not in state], "is missing"),
        ([name for name in state if name not in {*wanted, ROTARY}], "is no weight of the backbone"),
    ):
        if names:
            raise Refusal(f"{names[0]:.200} {what} ({len(names)} such names)")


def check_rows(arrays: Mapping[str, Floats]) -> None:
    """Raises Refusal unless embedding and head have one row a token, and one width."""
    for name, rank in ((EMBEDDING, 2), (WEIGHT, 2), (BIAS, 1)):
        if arrays[name].ndim != rank:
            raise Refusal(f"{name}: {arrays[name].ndim} dimensions, not {rank}")
    rows = {name: len(arrays[name]) for name in (EMBEDDING, WEIGHT, BIAS)}
    if len(set(rows.values())) > 1:
        raise Refusal(f"not one row a token: {', '.join(f'{n} has {c}' for n, c in rows.items())}")
    if arrays[EMBEDDING].shape != arrays[WEIGHT].shape:
        raise Refusal(f"{WEIGHT}: its rows are not as wide as the embedding's")


def _averages(loaded: Loaded, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The averaged weights: an unnamed list in the order of the parameters, the state's own."""
    ema = loaded.value.get("ema") if isinstance(loaded.value, dict) else None
    if isinstance(ema, Inert):
        ema = ema.state
    shadow = ema.get("shadow_params") if isinstance(ema, dict) else None
    if not isinstance(shadow, list | tuple):
        raise Refusal("no averaged weights (ema/shadow_params); take the raw ones")
    names = [name for name in state if name != ROTARY]
    if len(names) != len(shadow):
        raise Refusal(f"{len(shadow)} averages for {len(names)} weights")
    for name, tensor in zip(names, shadow, strict=True):
        if not isinstance(tensor, Tensor) or tensor.shape != state[name].shape:
            raise Refusal(f"{name}: its average has another shape")
    return dict(zip(names, shadow, strict=True))


def _array(name: str, tensor: Tensor) -> Floats:
    if tensor.dtype.name != "float32":
        raise Refusal(f"{name}: {tensor.dtype.name}; trainers keep their weights in float32")
    strides = tuple(4 * step for step in tensor.strides)
    found: Floats = np.ndarray(
        tensor.shape, np.dtype("<f4"), tensor.storage.data, 4 * tensor.offset, strides
    )
    if not np.isfinite(found).all():
        raise Refusal(f"{name}: not finite")
    return found

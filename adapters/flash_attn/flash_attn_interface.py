"""Attention of packed queries, keys and values (names and meanings: flash-attn 2.6)."""

import torch
import torch.nn.functional as F
from torch import Tensor


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor:
    """Attention of qkv (B, L, 3, heads, head): (B, L, heads, head).

    With `softcap` above 0 the scores are softcap * tanh(scores / softcap). What PyTorch's own
    attention does not have (windows, ALiBi, returned probabilities) raises NotImplementedError.
    """
    del deterministic  # it always is, as far as PyTorch's own attention is
    _refuse(
        window_size=tuple(window_size) != (-1, -1),
        alibi_slopes=alibi_slopes is not None,
        return_attn_probs=return_attn_probs,
    )
    q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, heads, L, head)
    if softcap > 0:
        attended = _softcapped(q, k, v, dropout_p, softmax_scale, causal, softcap)
    else:
        attended = F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout_p, is_causal=causal, scale=softmax_scale
        )
    return attended.transpose(1, 2)


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    **options: object,
) -> Tensor:
    """Attention within each of several sequences laid end to end: (total, heads, head).

    qkv is (total, 3, heads, head); sequence i has the rows cu_seqlens[i] to cu_seqlens[i + 1].
    """
    del max_seqlen  # it follows from cu_seqlens
    lengths = cu_seqlens.diff().tolist()
    if len(set(lengths)) == 1:  # as all the upstreams call it: one batch
        parts = [qkv.unflatten(0, (len(lengths), lengths[0]))]
    else:
        parts = [part[None] for part in qkv.split(lengths)]
    attended = [
        flash_attn_qkvpacked_func(part, dropout_p, softmax_scale, causal, **options)
        for part in parts
    ]
    return torch.cat([part.flatten(0, 1) for part in attended])


def _softcapped(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    softcap: float,
) -> Tensor:
    """The same with bounded scores, which are in float32 at least, as in flash-attn's kernel."""
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).transpose(-1, -2) * scale
    scores = softcap * torch.tanh(scores / softcap)
    if causal:
        length = scores.shape[-1]
        later = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    weights = F.dropout(scores.softmax(-1), dropout_p)
    return (weights @ v.to(wide)).to(v.dtype)


def _refuse(**used: bool) -> None:
    for name, is_used in used.items():
        if is_used:
            raise NotImplementedError(
                f"{name}: not in this stand-in for flash-attn; pin a real wheel of it instead"
            )


def _flash_attn_backward(*_: object, **__: object) -> None:
    """Imported by FLM's Jacobian-vector products; there is nothing to call it with here."""
    _refuse(_flash_attn_backward=True)


def _flash_attn_varlen_backward(*_: object, **__: object) -> None:
    """The same for sequences laid end to end."""
    _refuse(_flash_attn_varlen_backward=True)

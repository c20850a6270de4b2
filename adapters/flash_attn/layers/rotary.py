"""Rotary embeddings with flash-attn's names and meanings."""

import torch
from torch import Tensor


def apply_rotary_emb_torch(
    x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False
) -> Tensor:
    """x (B, L, heads, head) with its first 2 R coordinates turned; cos and sin are (L, R).

    Coordinate r turns with r + R, or 2 r with 2 r + 1 where `interleaved`.
    """
    turning, still = x[..., : 2 * cos.shape[-1]], x[..., 2 * cos.shape[-1] :]
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)  # over heads
    if interleaved:
        first, second = turning[..., 0::2], turning[..., 1::2]
    else:
        first, second = turning.chunk(2, -1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    joined = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    return torch.cat((joined, still), -1)


def apply_rotary_emb_qkv_(
    qkv: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False
) -> Tensor:
    """qkv (B, L, 3, heads, head) with queries and keys turned, values as they are.

    The turn is in float32 at least, as in flash-attn's kernel. Unlike there, `qkv` itself stays
    as it is: every upstream uses what is returned.
    """
    length = qkv.shape[1]
    wide = torch.promote_types(qkv.dtype, torch.float32)
    cos, sin = (part[:length].to(wide) for part in (cos, sin))
    q, k, v = qkv.unbind(2)
    turned = (
        apply_rotary_emb_torch(part.to(wide), cos, sin, interleaved).to(qkv.dtype)
        for part in (q, k)
    )
    return torch.stack((*turned, v), 2)

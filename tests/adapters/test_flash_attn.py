"""The stand-in for flash-attn is attention as it is written down, values and gradients."""

import itertools
import math
from collections.abc import Callable

import flash_attn
import flash_attn.layers.rotary as rotary
import pytest
import torch
from torch import Tensor

BATCH, LENGTH, HEADS, HEAD = 2, 7, 3, 8


def packed(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(*shape, 3, HEADS, HEAD, dtype=torch.float64, generator=generator)


def attended(qkv: Tensor, scale: float, causal: bool, softcap: float) -> Tensor:
    """Attention of one sequence (L, 3, heads, head), a sum at a time."""
    rows = []
    for head in range(HEADS):
        q, k, v = qkv[:, :, head].unbind(1)
        for i in range(len(q)):
            seen = i + 1 if causal else len(q)
            scores = [(q[i] * k[j]).sum() * scale for j in range(seen)]
            if softcap:
                scores = [softcap * torch.tanh(score / softcap) for score in scores]
            weights = torch.exp(torch.stack(scores))
            rows.append((weights / weights.sum()) @ v[:seen])
    return torch.stack(rows).unflatten(0, (HEADS, len(qkv))).transpose(0, 1)


def assert_same(
    ours: Callable[[Tensor], Tensor], theirs: Callable[[Tensor], Tensor], x: Tensor
) -> None:
    """Equal values, and equal gradients of an uneven sum of them."""
    results, gradients = [], []
    for function in (ours, theirs):
        given = x.clone().requires_grad_()
        result = function(given)
        uneven = torch.linspace(-1, 2, result.numel(), dtype=result.dtype).view_as(result)
        (result * uneven).sum().backward()
        results.append(result.detach())
        gradients.append(given.grad)
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(*gradients, rtol=1e-11, atol=1e-11)


KINDS = list(itertools.product((False, True), (0.0, 2.5), (None, 0.7)))


@pytest.mark.parametrize(("causal", "softcap", "scale"), KINDS)
def test_attention_of_rows(causal: bool, softcap: float, scale: float | None) -> None:
    used = 1 / math.sqrt(HEAD) if scale is None else scale
    assert_same(
        lambda x: flash_attn.flash_attn_qkvpacked_func(
            x, 0.0, softmax_scale=scale, causal=causal, softcap=softcap
        ),
        lambda x: torch.stack([attended(row, used, causal, softcap) for row in x]),
        packed(BATCH, LENGTH),
    )


@pytest.mark.parametrize("lengths", [(4, 4, 4), (1, 6, 3), (5,)])
@pytest.mark.parametrize(("causal", "softcap", "scale"), KINDS)
def test_attention_of_sequences_end_to_end(
    lengths: tuple[int, ...], causal: bool, softcap: float, scale: float | None
) -> None:
    used = 1 / math.sqrt(HEAD) if scale is None else scale
    ends = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)
    attend = flash_attn.flash_attn_interface.flash_attn_varlen_qkvpacked_func
    assert_same(
        lambda x: attend(
            x, ends, max(lengths), 0.0, softmax_scale=scale, causal=causal, softcap=softcap
        ),
        lambda x: torch.cat([attended(row, used, causal, softcap) for row in x.split(lengths)]),
        packed(sum(lengths)),
    )


def test_half_precision_is_kept_and_near() -> None:
    x = packed(BATCH, LENGTH)
    for softcap in (0.0, 2.5):
        exact = flash_attn.flash_attn_qkvpacked_func(x, softcap=softcap)
        half = flash_attn.flash_attn_qkvpacked_func(x.bfloat16(), softcap=softcap)
        assert half.dtype == torch.bfloat16
        torch.testing.assert_close(half.double(), exact, rtol=0.1, atol=0.1)


@pytest.mark.parametrize(
    "option",
    [{"window_size": (3, 0)}, {"alibi_slopes": torch.ones(3)}, {"return_attn_probs": True}],
)
def test_what_is_not_there_is_refused_by_name(option: dict[str, object]) -> None:
    with pytest.raises(NotImplementedError, match=next(iter(option))):
        flash_attn.flash_attn_qkvpacked_func(packed(BATCH, LENGTH), **option)


def turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Each pair of coordinates as a complex number, times exp(i angle)."""
    half = cos.shape[-1]
    pairs = [(2 * r, 2 * r + 1) if interleaved else (r, r + half) for r in range(half)]
    columns = list(x.unbind(-1))
    for r, (first, second) in enumerate(pairs):
        number = torch.complex(x[..., first], x[..., second])
        number = number * torch.complex(cos[:, r], sin[:, r])[:, None]
        columns[first], columns[second] = number.real, number.imag
    return torch.stack(columns, -1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("half", [HEAD // 2, 1])
def test_rotary_embeddings(half: int, interleaved: bool) -> None:
    angles = torch.arange(LENGTH)[:, None] * torch.linspace(0.1, 2, half, dtype=torch.float64)
    cos, sin = angles.cos(), angles.sin()
    x = packed(BATCH, LENGTH)
    assert_same(
        lambda x: rotary.apply_rotary_emb_torch(x[:, :, 0], cos, sin, interleaved),
        lambda x: turned(x[:, :, 0], cos, sin, interleaved),
        x,
    )
    longer = [torch.cat((part, part)) for part in (cos, sin)]  # a longer sequence's is cut
    assert_same(
        lambda x: rotary.apply_rotary_emb_qkv_(x, *longer, interleaved),
        lambda x: torch.stack(
            (*(turned(x[:, :, n], cos, sin, interleaved) for n in (0, 1)), x[:, :, 2]), 2
        ),
        x,
    )


def test_a_turn_in_half_precision_is_rounded_once() -> None:
    x = packed(BATCH, LENGTH).bfloat16()
    angles = torch.linspace(0, 3, LENGTH * HEAD // 2).view(LENGTH, -1)
    cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
    exact = rotary.apply_rotary_emb_qkv_(x.double(), cos, sin)
    assert torch.equal(rotary.apply_rotary_emb_qkv_(x, cos, sin), exact.float().bfloat16())

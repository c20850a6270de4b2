"""The pooled loss: cross-entropy to the label and to the teachers' pooled distribution.

    (1 - w) * CE(label) + w * CE(teachers), summed over targets

A block of targets at a time, and each logit once: the student's and, teacher by teacher, the
pooled logits (geo: softmax of the mean log-probability is the softmax of the mean logit, since
the normalisers are the same for all tokens) or probabilities (mix). The gradient follows while
they are there, as in "Liger Kernel" (Hsu et al. 2024, section 3.2), so that no tensor of all
targets by all tokens is ever made. Chunks of the vocabulary would need each product twice: a
token's gradient needs its normaliser, which takes the whole vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Head(NamedTuple):
    """States (targets, width) and the embedding (tokens, width) that makes logits of them."""

    states: Tensor
    weight: Tensor


def pooled(
    student: Head, labels: Tensor, teachers: Sequence[Head], pool: str, weight: float, rows: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss, and its two cross-entropies (label, teachers), each summed over targets.

    `labels` are (targets,); without teachers it is the label's cross-entropy alone. At most
    `rows` targets' logits are held at once. Only the loss has a gradient, and of the student
    only. Sums and pooling are at least in float32, whatever the states are in.
    """
    share = weight if teachers else 0.0
    return _Pooled.apply(*student, labels, tuple(teachers), pool, share, rows)


class _Pooled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        labels: Tensor,
        teachers: tuple[Head, ...],
        pool: str,
        share: float,
        rows: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        matrix = weight.to(states.dtype)
        wanted = any(ctx.needs_input_grad[:2])
        grads = (torch.empty_like(states), _zeros(weight)) if wanted else None
        label_sum, teacher_sum = (_zeros(states.new_empty(())) for _ in range(2))
        for start in range(0, len(labels), rows):
            part = slice(start, start + rows)
            here = [Head(one.states[part], one.weight) for one in teachers]
            logits = _logits(states[part], matrix)
            target = labels[part, None]
            chosen = logits.gather(1, target)
            probabilities = torch.softmax(logits, dim=1)
            # log sum exp, without its own pass of exponentials
            top = logits.amax(dim=1) - probabilities.amax(dim=1).log()
            label_sum += (top - chosen[:, 0]).sum()
            if here:
                aim = _distribution(here, pool)
                teacher_sum += (top - torch.linalg.vecdot(aim, logits)).sum()
                probabilities.sub_(aim, alpha=share)
            if grads is not None:
                slope = probabilities.scatter_add_(
                    1, target, torch.full_like(chosen, share - 1.0)
                ).to(states.dtype)
                torch.mm(slope, matrix, out=grads[0][part])
                _accumulate(grads[1], slope, states[part])
        if grads is not None:
            ctx.save_for_backward(*grads)
        ctx.mark_non_differentiable(label_sum, teacher_sum)
        return (1 - share) * label_sum + share * teacher_sum, label_sum, teacher_sum

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Any, ...]:
        states, weight = ctx.saved_tensors
        return (states * grad.to(states.dtype), weight * grad, *[None] * 5)


def _zeros(like: Tensor) -> Tensor:
    """Zeros to sum in: float64 for float64, else float32."""
    wide = torch.promote_types(like.dtype, torch.float32)
    return torch.zeros_like(like, dtype=wide)


def _logits(states: Tensor, weight: Tensor) -> Tensor:
    """(rows, tokens), at least in float32."""
    found = states @ weight.to(states.dtype).T
    return found.to(torch.promote_types(found.dtype, torch.float32))


def _accumulate(total: Tensor, slope: Tensor, states: Tensor) -> None:
    if total.dtype == states.dtype:
        total.addmm_(slope.T, states)
    else:
        total += (slope.T @ states).to(total.dtype)


def _distribution(teachers: Sequence[Head], pool: str) -> Tensor:
    """The teachers' pooled distribution, (rows, tokens)."""
    share = 1 / len(teachers)
    if pool == "mix":
        total = torch.softmax(_logits(*teachers[0]), dim=1)
        for teacher in teachers[1:]:
            total += torch.softmax(_logits(*teacher), dim=1)
        return total.mul_(share)
    total = _logits(*teachers[0])
    for states, weight in teachers[1:]:
        if total.dtype == states.dtype == weight.dtype:
            total.addmm_(states, weight.T)
        else:
            total += _logits(states, weight)
    return torch.softmax(total.mul_(share), dim=1)

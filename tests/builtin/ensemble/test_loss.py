"""The pooled loss: exact against a float64 reference, and never all logits at once."""

import pytest
import torch
from ensemble.loss import Head, pooled
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

POOLS = ("geo", "mix")


def made(targets: int, vocabulary: int, seed: int, dtype: torch.dtype, scale: float = 1.0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    head = Head(normal(targets, 5) * scale, normal(vocabulary, 5))
    teachers = [Head(normal(targets, 3 + n) * scale, normal(vocabulary, 3 + n)) for n in range(4)]
    labels = torch.randint(vocabulary, (targets,), generator=generator)
    return head, labels, teachers


def reference(head: Head, labels: Tensor, teachers: list[Head], pool: str, weight: float):
    """Four log-softmaxes, stacked, pooled; as the definition says, in float64."""
    states, matrix = (part.detach().double().clone().requires_grad_() for part in head)
    log_q = F.log_softmax(states @ matrix.T, dim=-1)
    label = -log_q.gather(1, labels[:, None]).sum()
    if not teachers:
        return label, states, matrix, label, torch.zeros(())
    log_p = torch.stack([F.log_softmax(s.double() @ w.double().T, dim=-1) for s, w in teachers])
    aim = F.softmax(log_p.mean(0), dim=-1) if pool == "geo" else log_p.exp().mean(0)
    taught = -(aim * log_q).sum()
    return (1 - weight) * label + weight * taught, states, matrix, label, taught


@settings(max_examples=40, deadline=None)
@given(
    targets=st.integers(0, 12),
    vocabulary=st.integers(2, 30),
    rows=st.integers(1, 14),
    weight=st.floats(0, 1),
    pool=st.sampled_from(POOLS),
    seed=st.integers(0, 1000),
    taught=st.booleans(),
)
def test_value_and_gradient_are_those_of_the_definition(
    targets: int, vocabulary: int, rows: int, weight: float, pool: str, seed: int, taught: bool
) -> None:
    head, labels, teachers = made(targets, vocabulary, seed, torch.float64)
    teachers = teachers if taught else []
    wanted, states, matrix, label, aimed = reference(head, labels, teachers, pool, weight)
    wanted.backward()
    mine = Head(*(part.clone().requires_grad_() for part in head))
    loss, *parts = pooled(mine, labels, teachers, pool, weight, rows)
    (3 * loss).backward()
    for found, expected in ((loss, wanted), *zip(parts, (label, aimed), strict=True)):
        assert found.item() == pytest.approx(expected.item(), rel=1e-12, abs=1e-12)
    for found, expected in ((mine.states, states), (mine.weight, matrix)):
        torch.testing.assert_close(found.grad, 3 * expected.grad, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_float32_is_as_exact_as_float32_is(pool: str, scale: float) -> None:
    head, labels, teachers = made(40, 300, 7, torch.float32, scale)
    wanted, states, matrix, *_ = reference(head, labels, teachers, pool, 0.5)
    wanted.backward()
    mine = Head(*(part.clone().requires_grad_() for part in head))
    loss = pooled(mine, labels, teachers, pool, 0.5, 16)[0]
    loss.backward()
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5)
    for found, expected in ((mine.states, states), (mine.weight, matrix)):
        torch.testing.assert_close(found.grad.double(), expected.grad, rtol=1e-3, atol=1e-4 * scale)


def test_a_bf16_student_is_pooled_in_float32() -> None:
    head, labels, teachers = made(10, 50, 3, torch.bfloat16)
    mine = Head(head.states.requires_grad_(), head.weight.float().requires_grad_())
    loss, *_ = pooled(mine, labels, teachers, "mix", 0.5, 4)
    loss.backward()
    assert loss.dtype == torch.float32
    assert mine.weight.grad is not None
    assert mine.weight.grad.dtype == torch.float32
    wanted = reference(head, labels, teachers, "mix", 0.5)[0]
    assert loss.item() == pytest.approx(wanted.item(), rel=0.02)


@pytest.mark.parametrize("pool", POOLS)
def test_no_tensor_of_all_targets_by_all_tokens_is_made(pool: str) -> None:
    targets, vocabulary, rows = 64, 1000, 8
    head, labels, teachers = made(targets, vocabulary, 1, torch.float32)

    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            for one in result if isinstance(result, tuple | list) else (result,):
                if isinstance(one, Tensor):
                    self.size = max(self.size, one.numel())
            return result

    mine = Head(*(part.requires_grad_() for part in head))
    with Largest() as largest:
        pooled(mine, labels, teachers, pool, 0.5, rows)[0].backward()
    assert largest.size == rows * vocabulary

"""DCD: pairs on one trajectory, rounds that double the stride, a teacher that is replaced."""

from collections.abc import Callable

import pytest
import torch
from algorithms.distillation import DCD
from ema import Average
from omegaconf import DictConfig
from small_models import check_gradients, perturbed, taught
from torch import Tensor
from vocabulary import Vocabulary

WORDS = 6
VOCABULARY = Vocabulary(WORDS, None, 0)
CURRICULUM = [
    f"+algo.curriculum.{name}={value}" for name, value in (("gamma_min", -4), ("gamma_max", -1))
]


@pytest.fixture
def model(configured: Callable[..., DictConfig], teacher_of: Callable[..., str]) -> DCD:
    """A student and its teacher, as they start."""
    path = teacher_of("algo=duo", VOCABULARY)
    config = configured(
        "algo=distillation",
        f"training.finetune_path={path}",
        "algo.T=8",
        "algo.update_teacher_every=10",
        *CURRICULUM,
    )
    return taught(DCD(config, VOCABULARY, torch.float32)).eval()


def test_the_stride_doubles_every_round(model: DCD) -> None:
    assert [model.stride(step) for step in (0, 9, 10, 20)] == [1 / 8, 1 / 8, 1 / 4, 1 / 2]


def test_a_student_that_is_its_teacher_pays_only_for_the_stride(model: DCD) -> None:
    tokens, uniform = torch.randint(0, WORDS, (64, 5)), torch.rand(64)
    model.stride = lambda step: 0.0
    assert model(tokens, uniform, 0).abs().max() < 1e-5
    model.stride = lambda step: 0.3
    losses = model(tokens, uniform, 0)
    assert losses.min() > -1e-5
    assert losses.mean() > 1e-3


def test_the_two_points_share_their_noise(model: DCD) -> None:
    tokens = torch.zeros(400, 4, dtype=torch.int64)
    noise = torch.randn(400, 4, WORDS)
    (_, _, late), (_, _, early) = (model.gaussian(torch.full((400,), t)) for t in (0.9, 0.5))
    later = model.blurred(tokens, late, noise).argmax(-1)
    earlier = model.blurred(tokens, early, noise).argmax(-1)
    # With less noise of the same kind a token that was right stays right.
    assert torch.all(earlier[later == 0] == 0)
    assert (earlier == 0).sum() > (later == 0).sum()


def test_the_teacher_is_replaced_at_a_rounds_start_only(model: DCD) -> None:
    average = Average(model.backbone.parameters(), 0.9)
    first = model.beside()["teacher"]["vocab_embed.embedding"].clone()
    perturbed(model.backbone)
    model.begin(9, average)
    assert torch.equal(model.teacher.vocab_embed.embedding, first)
    model.begin(10, average)
    assert torch.equal(model.teacher.vocab_embed.embedding, model.backbone.vocab_embed.embedding)
    assert not model.teacher.vocab_embed.embedding.requires_grad
    model.algo.teacher_ema = True
    model.begin(20, average)
    assert torch.equal(model.teacher.vocab_embed.embedding, average.shadow[0])


def test_gradients_reach_the_student_alone(model: DCD) -> None:
    perturbed(model.backbone, 0.1)
    model(torch.randint(0, WORDS, (4, 5)), torch.rand(4), 0).mean().backward()
    assert all(p.grad is not None for p in model.backbone.parameters())
    assert all(p.grad is None for p in model.teacher.parameters())


def test_gradients_are_those_of_finite_differences(model: DCD) -> None:
    model.double()
    perturbed(model.backbone, 0.1)
    tokens, uniform = torch.randint(0, WORDS, (3, 5)), torch.tensor([0.2, 0.5, 0.8]).double()

    def loss() -> Tensor:
        torch.manual_seed(1)
        return model(tokens, uniform, 0).mean()

    check_gradients(model, loss, "vocab_embed.embedding", "blocks.0.attn_qkv.weight")

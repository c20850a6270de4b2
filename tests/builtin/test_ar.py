"""The causal model: a distribution over rows, exactly."""

import itertools
from collections.abc import Callable

import pytest
import torch
from algorithms.ar import AR
from omegaconf import DictConfig
from small_models import perturbed
from vocabulary import Vocabulary

WORDS = 3


@pytest.fixture
def model(configured: Callable[..., DictConfig]) -> AR:
    """A random model of rows of three tokens."""
    config = configured("algo=ar", "model.length=3")
    return perturbed(AR(config, Vocabulary(WORDS, None, 0, begin=1), torch.float32).eval(), 0.3)


@torch.no_grad()
def test_probabilities_of_all_rows_with_their_first_token_add_up(model: AR) -> None:
    rows = torch.tensor([(1, *rest) for rest in itertools.product(range(WORDS), repeat=2)])
    chances = torch.exp(-model.measure(rows, torch.zeros(len(rows))).sum(-1))
    assert chances.sum().item() == pytest.approx(1, rel=1e-5)
    assert chances.max() > 2 * chances.min()


@torch.no_grad()
def test_samples_follow_those_probabilities(model: AR) -> None:
    torch.manual_seed(0)
    drawn = model.sample(6000, 1)
    assert torch.all(drawn[:, 0] == 1)
    seen = torch.bincount(drawn[:, 1] * WORDS + drawn[:, 2], minlength=9) / 6000
    rows = torch.tensor([(1, *rest) for rest in itertools.product(range(WORDS), repeat=2)])
    wanted = torch.exp(-model.measure(rows, torch.zeros(9)).sum(-1))
    assert (seen - wanted).abs().max() < 0.03


@torch.no_grad()
def test_no_place_sees_a_later_one(model: AR) -> None:
    first = model.logits(torch.tensor([[1, 0, 2]]))
    other = model.logits(torch.tensor([[1, 0, 0]]))
    torch.testing.assert_close(first[:, :2], other[:, :2])
    assert not torch.allclose(first[:, 2], other[:, 2])

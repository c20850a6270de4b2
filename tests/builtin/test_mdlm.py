"""MDLM against what can be enumerated: every mask, every order, every sequence."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from algorithms import build
from algorithms.mdlm import MDLM
from numpy.polynomial import Polynomial
from omegaconf import DictConfig
from small_models import perturbed
from torch import Tensor
from vocabulary import Vocabulary

LENGTH, WORDS = 3, 3
VOCABULARY = Vocabulary(WORDS, None, None)
EXACT = ("training.sampling_eps=0", "noise.eps=0", f"model.length={LENGTH}")


@pytest.fixture
def model(configured: Callable[..., DictConfig]) -> MDLM:
    """A random denoiser over three tokens, in float64."""
    return perturbed(MDLM(configured(*EXACT), VOCABULARY, torch.float32).double().eval())


def log_probabilities(model: MDLM, tokens: tuple[int, ...], revealed: set[int]) -> Tensor:
    noisy = torch.tensor([[t if i in revealed else model.mask for i, t in enumerate(tokens)]])
    return model.logits(noisy, torch.tensor([0.5]))[0].log_softmax(-1)


def likelihood(model: MDLM, tokens: tuple[int, ...]) -> float:
    """In continuous time tokens are revealed one by one, in a uniformly random order."""
    total = 0.0
    for order in itertools.permutations(range(LENGTH)):
        terms = (
            log_probabilities(model, tokens, set(order[:k]))[i, tokens[i]].item()
            for k, i in enumerate(order)
        )
        total += math.exp(sum(terms))
    return total / math.factorial(LENGTH)


def nelbo(model: MDLM, tokens: tuple[int, ...], first: float = 0.0) -> float:
    """Equation 10 with the time integrated out, over [first, 1].

    A mask of k of L tokens has probability t^k (1 - t)^(L - k) at time t, and weighs 1 / t.
    """
    total = 0.0
    for k in range(1, LENGTH + 1):
        power = Polynomial([0, 1]) ** (k - 1) * Polynomial([1, -1]) ** (LENGTH - k)
        weight = power.integ()(1) - power.integ()(first)
        for masked in itertools.combinations(range(LENGTH), k):
            scores = log_probabilities(model, tokens, set(range(LENGTH)) - set(masked))
            total -= weight * sum(scores[i, tokens[i]].item() for i in masked)
    return total


@torch.no_grad()
def test_the_model_is_a_distribution_and_the_bound_lies_above_its_nll(model: MDLM) -> None:
    sequences = list(itertools.product(range(WORDS), repeat=LENGTH))
    probabilities = [likelihood(model, tokens) for tokens in sequences]
    assert sum(probabilities) == pytest.approx(1, abs=1e-4)  # the mask's logit is only -1e6
    gaps = [
        nelbo(model, tokens) + math.log(p)
        for tokens, p in zip(sequences, probabilities, strict=True)
    ]
    assert min(gaps) > -1e-9  # some rows are all but certain
    assert max(gaps) > 1e-3


@torch.no_grad()
def test_the_bound_is_tight_where_the_order_does_not_matter(
    configured: Callable[..., DictConfig],
) -> None:
    blind = MDLM(configured(*EXACT), VOCABULARY, torch.float32).double().eval()
    blind.backbone.output_layer.linear.bias += torch.tensor([0.3, -1.0, 0.5, 2.0])
    for tokens in itertools.product(range(WORDS), repeat=LENGTH):
        assert nelbo(blind, tokens) == pytest.approx(-math.log(likelihood(blind, tokens)))


@torch.no_grad()
def test_the_loss_estimates_the_bound_without_bias(model: MDLM) -> None:
    torch.manual_seed(1)
    rows, model.first_time = 1 << 15, 0.05  # the variance grows with log(1 / first time)
    for tokens in ((0, 1, 2), (2, 2, 0)):
        uniform = (torch.rand(rows) + torch.arange(rows)) / rows
        losses = model(torch.tensor([tokens]).expand(rows, -1), uniform).sum(-1)
        error = losses.std().item() / math.sqrt(rows)
        wanted = nelbo(model, tokens, first=0.05) / 0.95  # times are spread over 0.95
        assert error < 0.02 * wanted
        assert abs(losses.mean().item() - wanted) < 4 * error


@torch.no_grad()
def test_what_is_not_masked_costs_nothing_and_weights_are_one_over_t(
    configured: Callable[..., DictConfig],
) -> None:
    flat = MDLM(configured("model.length=64"), VOCABULARY, torch.float32).eval()
    torch.manual_seed(0)
    uniform = torch.tensor([0.0, 0.5, 0.999])
    t = 1e-3 + (1 - 1e-3) * uniform
    loss = flat(torch.zeros(3, 64, dtype=torch.int64), uniform)
    priced = math.log(WORDS) / t[:, None]  # a fresh head is uniform over the words
    assert torch.all((loss == 0) | torch.isclose(loss, priced))
    assert (loss[0] == 0).sum() > 60
    assert (loss[2] > 0).sum() > 60


def test_gradients_are_those_of_finite_differences(model: MDLM) -> None:
    tokens, uniform = torch.tensor([[0, 1, 2], [1, 1, 0]]), torch.tensor([0.9, 0.6])

    def loss() -> Tensor:
        torch.manual_seed(3)
        return model(tokens, uniform).mean()

    loss().backward()
    for name, parameter in model.backbone.named_parameters():
        direction = torch.randn(parameter.shape, dtype=torch.float64)
        slope = (parameter.grad * direction).sum().item()
        step = 1e-5 * direction
        with torch.no_grad():
            parameter += step
            up = loss().item()
            parameter -= 2 * step
            down = loss().item()
            parameter += step
        assert (up - down) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-7), name


@torch.no_grad()
def test_samples_follow_the_model(model: MDLM) -> None:
    torch.manual_seed(0)
    count = 4000
    rows = model.sample(count, steps=24)
    assert model.mask not in rows
    seen = torch.bincount(rows @ torch.tensor([9, 3, 1]), minlength=27) / count
    wanted = [likelihood(model, t) for t in itertools.product(range(WORDS), repeat=LENGTH)]
    # A step sometimes reveals two tokens at once, which biases the pair a little.
    assert (seen - torch.tensor(wanted)).abs().sum() / 2 < 0.05


def test_a_setting_that_is_not_mdlm_is_refused(configured: Callable[..., DictConfig]) -> None:
    with pytest.raises(SystemExit, match="mdlm: parameterization=d3pm: subs is what there is"):
        build(configured("parameterization=d3pm"), VOCABULARY, torch.float32)

"""Duo against enumeration, closed forms and quadrature."""

import itertools
import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from algorithms.duo import Duo
from argmax import Clock, kept
from omegaconf import DictConfig
from small_models import perturbed
from torch import Tensor
from vocabulary import Vocabulary

WORDS, LENGTH = 3, 2
VOCABULARY = Vocabulary(WORDS, None, 0)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(160)


@pytest.fixture
def model(configured: Callable[..., DictConfig]) -> Duo:
    """A random denoiser over three tokens, in float64, of exact times."""
    config = configured(
        "algo=duo", f"model.length={LENGTH}", "training.sampling_eps=0", "noise.eps=0"
    )
    return perturbed(Duo(config, VOCABULARY, torch.float32).double().eval(), 0.3)


def sequences(length: int) -> Tensor:
    """Every row of the given length."""
    return torch.tensor(list(itertools.product(range(WORDS), repeat=length)))


def forward_chance(alpha: float, tokens: Tensor, noisy: Tensor) -> Tensor:
    """q(noisy | tokens) of whole rows, for every row `noisy` (N, L)."""
    chance = torch.where(noisy == tokens, alpha + (1 - alpha) / WORDS, (1 - alpha) / WORDS)
    return chance.prod(-1)


def rate(model: Duo, log_mean: Tensor, noisy: Tensor, tokens: Tensor, t: float) -> Tensor:
    """The loss of each of the rows `noisy`, summed over places, with alpha = 1 - t."""
    alpha = torch.full((len(noisy),), 1 - t, dtype=torch.float64)
    terms = model.loss(log_mean, noisy, tokens.expand_as(noisy), alpha, torch.full_like(alpha, -1))
    return terms.sum(-1)


def test_the_best_denoiser_of_one_token_pays_its_entropy(model: Duo) -> None:
    """For a row of one token the exact reverse process is reached by x_theta = p(x)."""
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    noisy = sequences(1)
    total = 0.0
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        t = (node + 1) / 2
        for x in range(WORDS):
            tokens = torch.tensor([x])
            log_mean = prior.log().expand(WORDS, 1, WORDS)
            chance = forward_chance(1 - t, tokens, noisy)
            losses = rate(model, log_mean, noisy, tokens, t)
            total += weight / 2 * prior[x].item() * (chance * losses).sum().item()
    assert total == pytest.approx(-(prior * prior.log()).sum().item(), rel=1e-4)


@torch.no_grad()
def test_the_bound_lies_above_the_likelihood_of_the_reverse_process(model: Duo) -> None:
    """The reverse process, cut into many steps, is a product of enumerated transitions."""
    rows = sequences(LENGTH)
    times = np.concatenate((np.linspace(0.999, 0.02, 250), np.geomspace(0.02, 1e-5, 80), [0.0]))
    reached = torch.full((len(rows),), 1 / len(rows), dtype=torch.float64)
    for t, s in pairwise(times):
        alpha_t, alpha_s = 1 - t, 1 - s
        mean = model.denoised(rows, torch.full((len(rows),), alpha_t, dtype=torch.float64)).exp()
        kept_between = alpha_t / alpha_s
        same = torch.nn.functional.one_hot(rows, WORDS)
        step = kept_between * same + (1 - kept_between) / WORDS
        places = step * (alpha_s * mean + (1 - alpha_s) / WORDS)
        places = places / places.sum(-1, keepdim=True)  # (N, L, V)
        move = torch.stack([places[:, i][:, rows[:, i]] for i in range(LENGTH)]).prod(0)
        reached = reached @ move
    assert reached.sum().item() == pytest.approx(1)
    gaps = []
    for place, tokens in enumerate(rows):
        bound = 0.0
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            t = 0.999 * (node + 1) / 2
            alpha = torch.full((len(rows),), 1 - t, dtype=torch.float64)
            losses = rate(model, model.denoised(rows, alpha), rows, tokens, t)
            bound += (
                0.999 * weight / 2 * (forward_chance(1 - t, tokens, rows) * losses).sum().item()
            )
        gaps.append(bound + reached[place].log().item())
    assert min(gaps) > 0
    assert max(gaps) < 1


@torch.no_grad()
def test_validation_estimates_the_integral_without_bias(model: Duo) -> None:
    torch.manual_seed(0)
    count, first = 1 << 15, 0.05
    model.first_time, rows, tokens = first, sequences(LENGTH), torch.tensor([0, 2])
    uniform = (torch.rand(count) + torch.arange(count)) / count * 0.99
    losses = model.measure(tokens.expand(count, -1), uniform).sum(-1)
    wanted = 0.0
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        t = first + (1 - first) * 0.99 * (node + 1) / 2
        alpha = torch.full((len(rows),), 1 - t, dtype=torch.float64)
        terms = rate(model, model.denoised(rows, alpha), rows, tokens, t)
        wanted += weight / 2 * (forward_chance(1 - t, tokens, rows) * terms).sum().item()
    error = losses.std().item() / math.sqrt(count)
    assert error < 0.05 * wanted
    assert abs(losses.mean().item() - wanted) < 4 * error


@pytest.mark.parametrize("tokens", [2, 5, 100])
def test_alpha_is_how_often_the_argmax_stays(tokens: int) -> None:
    torch.manual_seed(0)
    for ratio in (0.5, 2.0):
        rows = torch.randn(40_000, tokens)
        rows[:, 0] += ratio
        share = (rows.argmax(-1) == 0).double().mean().item()
        alpha, slope = kept(torch.tensor([ratio]), tokens)
        error = math.sqrt(share * (1 - share) / 40_000)
        assert (alpha.item() * (tokens - 1) + 1) / tokens == pytest.approx(share, abs=4 * error)
        up, down = (
            kept(torch.tensor([ratio + d], dtype=torch.float64), tokens)[0] for d in (1e-4, -1e-4)
        )
        assert slope.item() == pytest.approx(((up - down) / 2e-4).item(), rel=1e-5)


def test_two_tokens_have_a_closed_form() -> None:
    ratio = torch.linspace(0, 4, 9, dtype=torch.float64)
    wanted = 2 * torch.special.ndtr(ratio / math.sqrt(2)) - 1
    torch.testing.assert_close(kept(ratio, 2)[0], wanted)


def test_the_gaussian_slope_is_the_derivative_in_time(
    configured: Callable[..., DictConfig],
) -> None:
    model = Duo(configured("algo=duo"), Vocabulary(50, None, 0), torch.float32)
    t = torch.tensor([0.2, 0.5, 0.8], dtype=torch.float64)
    alpha, slope, gamma = model.gaussian(t)
    up, down = model.gaussian(t + 1e-3)[0], model.gaussian(t - 1e-3)[0]
    torch.testing.assert_close(slope, (up - down) / 2e-3, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(gamma.double(), -3.5 + 1.75 * t, rtol=1e-6, atol=0)
    assert torch.all(alpha[:-1] > alpha[1:])


def test_the_clock_inverts_alpha() -> None:
    clock = Clock(500)
    tau = torch.tensor([0.0, 1e-3, 0.2, 0.5, 0.9, 0.999, 1.0], dtype=torch.float64)
    t = clock.signal(tau)
    assert t[-1] == 1
    torch.testing.assert_close(kept(t[:-1] / (1 - t[:-1]), 500)[0], tau[:-1], rtol=0, atol=1e-5)


def test_the_curriculum_ends_and_cools(configured: Callable[..., DictConfig]) -> None:
    model = Duo(
        configured("algo=duo", "algo.curriculum.start=100", "algo.curriculum.end=200"),
        VOCABULARY,
        torch.float32,
    ).eval()
    temperatures = [model.temperature(step) for step in (0, 100, 150, 200)]
    assert temperatures == pytest.approx([0.1, 0.1, 10**-1.5, 0.01])
    tokens, uniform = torch.tensor([[0, 1, 2]]), torch.tensor([0.5])
    torch.manual_seed(0)
    late = model(tokens, uniform, 201)
    torch.manual_seed(0)
    assert torch.equal(late, model.measure(tokens, uniform))
    torch.manual_seed(0)
    assert not torch.equal(late, model(tokens, uniform, 200))


def test_gradients_of_the_curriculum_are_those_of_finite_differences(model: Duo) -> None:
    tokens, uniform = torch.tensor([[0, 1], [2, 1]]), torch.tensor([0.4, 0.6])
    model.curriculum.gumbel_tau_log10_start = 0.0  # a softmax that is not yet an argmax

    def loss() -> Tensor:
        torch.manual_seed(3)
        return model(tokens, uniform, 0).mean()

    loss().backward()
    parameter = model.backbone.vocab_embed.embedding
    direction = torch.randn(parameter.shape, dtype=torch.float64)
    slope = (parameter.grad * direction).sum().item()
    with torch.no_grad():
        parameter += 1e-5 * direction
        up = loss().item()
        parameter -= 2e-5 * direction
        down = loss().item()
    assert (up - down) / 2e-5 == pytest.approx(slope, rel=1e-4)


@torch.no_grad()
def test_samples_of_a_blind_denoiser_are_its_distribution(
    configured: Callable[..., DictConfig],
) -> None:
    config = configured("algo=duo", f"model.length={LENGTH}", "noise.eps=1e-6")
    blind = Duo(config, VOCABULARY, torch.float32).eval()
    blind.backbone.output_layer.linear.bias += torch.tensor([1.0, 0.0, -1.0])
    torch.manual_seed(0)
    seen = torch.bincount(blind.sample(5000, 8).flatten(), minlength=WORDS) / 10_000
    wanted = torch.tensor([1.0, 0.0, -1.0]).softmax(-1)
    assert (seen - wanted).abs().max() < 0.02


@torch.no_grad()
def test_samples_follow_the_enumerated_reverse_process(model: Duo) -> None:
    """Of a random denoiser: each step is Bayes' rule with its mean in place of the token."""
    model.noise_floor, steps, count = 1e-6, 3, 40_000
    rows = sequences(LENGTH)
    chances = torch.full((len(rows),), 1 / len(rows), dtype=torch.float64)
    times = [1 - step / steps for step in range(steps + 1)]
    for t, s in pairwise(times):
        at_t, at_s = (1 - (1 - 1e-6) * time for time in (t, s))
        kept_between = at_t / at_s
        mean = model.denoised(rows, torch.full((len(rows),), at_t, dtype=torch.float64)).exp()
        moved = torch.zeros_like(chances)
        for chance, z, x in zip(chances, rows, mean, strict=True):
            to = torch.ones(len(rows), dtype=torch.float64)
            for place in range(LENGTH):
                forward = torch.full((WORDS,), (1 - kept_between) / WORDS, dtype=torch.float64)
                forward[z[place]] += kept_between  # q(z_t | z_s), of each z_s
                posterior = forward * (at_s * x[place] + (1 - at_s) / WORDS)
                to *= (posterior / posterior.sum())[rows[:, place]]
            moved += chance * to
        chances = moved
    torch.manual_seed(0)
    drawn = model.sample(count, steps) @ torch.tensor([WORDS, 1])
    seen = torch.bincount(drawn, minlength=len(rows)) / count
    assert (seen - chances).abs().sum() / 2 < 0.02
    assert (chances - 1 / len(rows)).abs().sum() / 2 > 0.1  # and that says something

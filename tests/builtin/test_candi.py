"""CANDI: its two noises, its weights and its sampler."""

import math
from collections.abc import Callable

import pytest
import torch
from algorithms.candi import CANDI
from omegaconf import DictConfig
from small_models import perturbed
from torch import Tensor
from vocabulary import Vocabulary

WORDS = 20
VOCABULARY = Vocabulary(WORDS, None, 0)


@pytest.fixture
def model(configured: Callable[..., DictConfig]) -> CANDI:
    """A random denoiser over twenty tokens."""
    config = configured("algo=candi", "model.length=6")
    return perturbed(CANDI(config, VOCABULARY, torch.float32).eval(), 0.2)


def test_other_tokens_win_as_often_as_the_percentile_says(model: CANDI) -> None:
    torch.manual_seed(0)
    hidden = torch.tensor([0.1, 0.5, 1.0])
    for share, sigma in zip(hidden, model.sigma(hidden), strict=True):
        rows = sigma * torch.randn(20_000, WORDS)
        rows[:, 0] += 1
        beaten = (rows[:, 1:] > rows[:, :1]).sum(-1).double().mean().item() / WORDS
        assert beaten == pytest.approx(0.01 + 0.24 * share.item(), abs=0.003)


def test_only_hidden_places_cost_and_by_one_over_t(model: CANDI) -> None:
    torch.nn.init.zeros_(model.backbone.output_layer.linear.weight)
    torch.nn.init.zeros_(model.backbone.output_layer.linear.bias)
    torch.manual_seed(0)
    uniform = torch.tensor([0.0, 0.4, 0.999])
    t = 1e-3 + (1 - 1e-3) * uniform
    loss = model(torch.zeros(3, 200, dtype=torch.int64), uniform)
    priced = math.log(WORDS) / t[:, None]
    assert torch.all((loss == 0) | torch.isclose(loss, priced))
    share = (loss > 0).double().mean(-1)
    # A hidden place stays revealed where the drawn token (one of 21) is its own.
    wanted = (1 - 1e-3) * t.double() * 20 / 21
    torch.testing.assert_close(share, wanted, rtol=0, atol=0.1)


def test_a_revealed_place_shows_its_token_and_nothing_of_the_noise(model: CANDI) -> None:
    tokens, hidden = torch.randint(0, WORDS, (2, 6)), torch.tensor([0.5, 0.5])
    sigma = model.sigma(hidden)
    everything = torch.ones_like(tokens, dtype=torch.bool)
    results = [
        model.log_mean(model.corrupted(tokens, sigma), tokens, everything, hidden, sigma)
        for _ in range(2)
    ]
    assert torch.equal(*results)
    part = everything.clone()
    part[:, 3] = False
    other = model.log_mean(model.corrupted(tokens, sigma), tokens, part, hidden, sigma)
    assert not torch.allclose(results[0], other)


def test_the_noisy_row_is_seen_scaled_and_mixed_with_the_mask(model: CANDI) -> None:
    seen: list[Tensor] = []

    def body(rows: Tensor, sigma: Tensor) -> Tensor:
        seen.append(rows)
        return torch.zeros(*rows.shape[:2], WORDS + 1)

    model.backbone.body = body
    rows = torch.randn(1, 6, 16)
    nothing = torch.zeros(1, 6, dtype=torch.bool)
    model.log_mean(
        rows,
        torch.zeros(1, 6, dtype=torch.int64),
        nothing,
        torch.tensor([0.5]),
        torch.tensor([2.0]),
    )
    mask = model.backbone.vocab_embed.embedding[-1]
    torch.testing.assert_close(seen[0], 0.5 * mask / mask.norm() + 0.5 * rows / math.sqrt(5))


def test_samples_of_a_blind_denoiser_are_its_distribution(
    configured: Callable[..., DictConfig],
) -> None:
    blind = CANDI(configured("algo=candi", "model.length=6"), VOCABULARY, torch.float32).eval()
    scores = torch.linspace(0, 3, WORDS)
    with torch.no_grad():
        blind.backbone.output_layer.linear.bias[:-1] += scores
    torch.manual_seed(0)
    seen = torch.bincount(blind.sample(2000, 5).flatten(), minlength=WORDS) / 12_000
    assert (seen - scores.softmax(-1)).abs().max() < 0.015


def test_gradients_are_those_of_finite_differences(model: CANDI) -> None:
    model.double()
    tokens, uniform = torch.randint(0, WORDS, (2, 6)), torch.tensor([0.4, 0.9])

    def loss() -> Tensor:
        torch.manual_seed(1)
        return model(tokens, uniform).mean()

    loss().backward()
    for name in ("vocab_embed.embedding", "blocks.1.mlp.0.weight"):
        parameter = model.backbone.get_parameter(name)
        direction = torch.randn(parameter.shape, dtype=torch.float64)
        slope = (parameter.grad * direction).sum().item()
        with torch.no_grad():
            parameter += 1e-6 * direction
            up = loss().item()
            parameter -= 2e-6 * direction
            down = loss().item()
            parameter += 1e-6 * direction
        assert (up - down) / 2e-6 == pytest.approx(slope, rel=1e-3), name


@pytest.mark.parametrize("steps", [1, 2, 5, 40])
def test_rows_go_along_the_flow_to_what_the_denoiser_draws(model: CANDI, steps: int) -> None:
    """Around a known row the Gaussian flow keeps the noise's direction: x0 + sigma z."""
    seen: list[tuple[Tensor, Tensor]] = []
    certain = torch.full((3, 6, WORDS), -1e9)
    certain[..., 7] = 0.0

    def log_mean(rows: Tensor, tokens: Tensor, revealed: Tensor, *levels: Tensor) -> Tensor:
        seen.append((rows, levels[1]))
        return certain

    model.log_mean = log_mean
    assert torch.equal(model.sample(3, steps), torch.full((3, 6), 7))
    sigmas = model.sigma(torch.linspace(0.999, 1e-5, steps + 1))
    target = model.embeddings()[0][7]
    noise = (seen[0][0] - target) / sigmas[0]
    for (rows, told), sigma in zip(seen, sigmas[:-1], strict=True):
        torch.testing.assert_close(told, sigma.expand(3))  # the noise that the rows have
        torch.testing.assert_close(rows, target + sigma * noise, rtol=1e-4, atol=1e-4)

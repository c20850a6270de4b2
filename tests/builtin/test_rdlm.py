"""RDLM: the sphere's geometry, the law against simulated bridges, digits, times and the bound."""

import math
from collections.abc import Callable

import pytest
import torch
from algorithms.rdlm import RDLM
from omegaconf import DictConfig
from small_models import perturbed
from sphere import Law, Schedule, exp, log, mean_cosine
from torch import Tensor
from vocabulary import Vocabulary

SCHEDULE = Schedule(1e-2, 0.5)
SMALL = ("sde.preprocess_steps=100", "sde.preprocess_paths=512", "eval.simul_steps=40")
Make = Callable[..., DictConfig]


@pytest.fixture
def model(configured: Make) -> RDLM:
    """A random network over fourteen tokens, three digits each."""
    config = configured(*SMALL, "model.length=4", tree="configs_rdlm")
    return perturbed(RDLM(config, Vocabulary(14, None, None), torch.float32).eval(), 0.1)


def test_log_and_exp_are_each_others_inverse() -> None:
    torch.manual_seed(0)
    base = torch.nn.functional.normalize(torch.randn(50, 4, dtype=torch.float64), dim=-1)
    corner = torch.eye(4, dtype=torch.float64)[1].expand(50, 4)
    direction = log(base, corner)
    torch.testing.assert_close((direction * base).sum(-1), torch.zeros(50).double())
    torch.testing.assert_close(direction.norm(dim=-1), base[:, 1].arccos())
    torch.testing.assert_close(exp(base, direction), corner, rtol=0, atol=1e-7)


def test_drift_is_noise_over_what_is_left_of_it() -> None:
    t = torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64)
    for time, drift in zip(t, SCHEDULE.drift(t), strict=True):
        grid = torch.linspace(time.item(), 1, 20_001, dtype=torch.float64)
        left = torch.trapezoid(SCHEDULE.beta(grid), grid)
        assert drift.item() == pytest.approx((SCHEDULE.beta(time) / left).item(), rel=1e-6)


@pytest.mark.parametrize("dimensions", [1, 3, 10])
def test_the_mean_cosine_is_that_of_drawn_normals(dimensions: int) -> None:
    torch.manual_seed(0)
    for rho in (0.2, 0.6):
        drawn = torch.cos(rho * torch.randn(100_000, dimensions).norm(dim=-1)).mean().item()
        assert mean_cosine(torch.tensor([rho]), dimensions).item() == pytest.approx(drawn, abs=4e-3)
    closed = math.exp(-0.18)  # of one dimension: the characteristic function
    assert mean_cosine(torch.tensor([0.6]), 1).item() == pytest.approx(closed, rel=1e-4)


@pytest.mark.parametrize("inner", [0.0, 0.5])
def test_the_law_is_that_of_bridges_simulated_on_the_sphere(inner: float) -> None:
    torch.manual_seed(0)
    law = Law(4, inner, SCHEDULE, 200, 4096)
    start = torch.full((4,), 0.5) if inner else torch.eye(4)[3]
    ends, steps = torch.eye(4)[0].expand(4000, 1, 4), 200
    x = start.expand_as(ends)
    for place in range(160):
        t = torch.tensor(place / steps)
        noise = (SCHEDULE.beta(t) / steps).sqrt() * torch.randn_like(x)
        x = exp(x, SCHEDULE.drift(t) / steps * log(x, ends) + noise)
        if place + 1 in (60, 120, 160):
            drawn = law.drawn(start, ends, torch.full((4000,), (place + 1) / steps))
            torch.testing.assert_close(drawn.norm(dim=-1), torch.ones(4000, 1))
            torch.testing.assert_close(drawn.mean(0), x.mean(0), rtol=0, atol=0.02)
            torch.testing.assert_close(drawn.std(0), x.std(0), rtol=0.1, atol=0.012)


def test_tokens_are_digits_and_back(model: RDLM) -> None:
    tokens = torch.arange(14).view(2, 7)
    corners = model.corners(tokens)
    assert corners.shape == (2, 21, 4)
    assert torch.all(corners[..., 3] == 0)  # never the mask
    digits = corners.argmax(-1)
    assert digits[1, :3].tolist() == [1, 2, 0]  # 7 = 1 + 2 * 3
    assert torch.equal(model.words_of(digits), tokens)
    assert model.words_of(torch.full((1, 3), 2)).item() == 0  # 26 is no token


def test_times_are_drawn_by_their_weight_and_weighed_back(model: RDLM) -> None:
    model.weights = (0.3, 0.75, 0.2, 1.0)
    uniform = torch.linspace(0, 1, 100_001)[:-1]
    t, weight = model.time(uniform)
    inside = (t > 0.3) & (t < 0.75)
    total = 0.45 + 0.55 * 0.2
    assert inside.double().mean().item() == pytest.approx(0.45 / total, abs=1e-3)
    for power in (0, 1, 2):  # an integral over all times is estimated without bias
        assert (weight * t**power).mean().item() == pytest.approx(1 / (power + 1), abs=1e-3)


def test_a_network_that_knows_the_end_pays_nothing_and_a_blind_one_the_integral(
    model: RDLM,
) -> None:
    tokens = torch.zeros(512, 4, dtype=torch.int64)
    model.predicted = lambda x, t: model.corners(tokens)[..., :3] * 60
    uniform = (torch.arange(512) + 0.5) / 512
    assert model.measure(tokens, uniform).abs().max() < 1e-4
    # Undecided between a digit and the two others, it cannot cost less than log 3 a digit.
    model.predicted = lambda x, t: torch.zeros(len(x), 12, 3)
    torch.manual_seed(0)
    assert model.measure(tokens, uniform).mean().item() > 3 * math.log(3)


PRIOR = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)


@pytest.fixture
def one_digit(configured: Make) -> RDLM:
    """Rows of one digit, whose posterior is known: Bayes' rule on the law of the path."""
    config = configured(
        *SMALL,
        "model.length=1",
        "scheduler.beta_0=0.01",
        "scheduler.beta_f=0.5",
        tree="configs_rdlm",
    )
    model = RDLM(config, Vocabulary(3, None, None), torch.float32).eval()
    law = model.masked
    start = torch.eye(4)[3]

    def posterior(x: Tensor, t: Tensor) -> Tensor:
        alpha, rho = (part[:, None, None] for part in law.at(t.clamp(min=1e-3)))
        means = torch.stack(
            [(1 - alpha**2).sqrt() * start + alpha * torch.eye(4)[k] for k in range(3)]
        )
        angles = (means * x).sum(-1).clamp(-1, 1).arccos()  # (3, B, 1)
        # A Riemannian normal's density: that of its tangent vector, shrunk by the sphere.
        log_density = -(angles**2) / (2 * rho[..., 0] ** 2) - 2 * torch.sinc(angles / math.pi).log()
        return (log_density.permute(1, 2, 0) + PRIOR.log()).float()

    model.predicted = posterior
    return model


def test_the_bound_of_one_digit_lies_above_its_entropy(one_digit: RDLM) -> None:
    torch.manual_seed(0)
    count = 6000
    tokens = torch.multinomial(PRIOR, count, replacement=True)[:, None]
    uniform = (torch.rand(count) + torch.randperm(count)) / count
    bound = one_digit.measure(tokens, uniform * 0.97).mean().item() * 0.97
    entropy = -(PRIOR * PRIOR.log()).sum().item()
    # The path's law is only nearly normal, so the posterior is only nearly right.
    assert entropy * 0.9 < bound < entropy * 1.25


def test_samples_of_the_exact_network_are_the_data(one_digit: RDLM) -> None:
    torch.manual_seed(0)
    seen = torch.bincount(one_digit.sample(4000, 60).flatten(), minlength=3) / 4000
    assert (seen - PRIOR).abs().max() < 0.04


def test_samples_of_a_blind_network_are_digits_alike(model: RDLM) -> None:
    scores = torch.tensor([2.0, 0.0, 0.0])
    model.predicted = lambda x, t: scores.expand(len(x), 12, 3)
    torch.manual_seed(0)
    rows = model.sample(200, 40)
    assert rows.shape == (200, 4)
    assert rows.max() < 14


def test_gradients_are_those_of_finite_differences(model: RDLM) -> None:
    model.double()
    tokens, uniform = torch.tensor([[1, 7, 13, 0]]), torch.tensor([0.4])
    model.predicted = lambda x, t: model.backbone(x[..., :3].double(), t)

    def loss() -> Tensor:
        torch.manual_seed(1)
        return model(tokens, uniform).mean()

    loss().backward()
    for name in ("vocab_embed.embedding.weight", "blocks.0.attn_qkv.weight"):
        parameter = model.backbone.get_parameter(name)
        direction = torch.randn(parameter.shape, dtype=torch.float64)
        slope = (parameter.grad * direction).sum().item()
        with torch.no_grad():
            parameter += 1e-5 * direction
            up = loss().item()
            parameter -= 2e-5 * direction
            down = loss().item()
            parameter += 1e-5 * direction
        assert (up - down) / 2e-5 == pytest.approx(slope, rel=1e-4), name


def test_loss_is_summed_over_a_row(model: RDLM) -> None:
    torch.nn.init.zeros_(model.backbone.output_layer.linear.weight)
    torch.nn.init.zeros_(model.backbone.output_layer.linear.bias)
    uniform = torch.tensor([0.2, 0.9])
    weight = model.time(uniform)[1]
    loss = model(torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), uniform)
    torch.testing.assert_close(loss, 12 * math.log(3) * weight)

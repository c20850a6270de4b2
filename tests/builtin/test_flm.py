"""FLM and FMLM on flows whose denoiser is known exactly."""

import math
from collections.abc import Callable

import pytest
import torch
from algorithms.flm import FLM
from algorithms.fmlm import FMLM
from omegaconf import DictConfig
from small_models import check_gradients, perturbed, taught
from torch import Tensor
from vocabulary import Vocabulary

WORDS = 4
VOCABULARY = Vocabulary(WORDS, None, 0)
PRIOR = torch.tensor([0.4, 0.3, 0.2, 0.1])
Make = Callable[..., DictConfig]


def posterior(x: Tensor, t: Tensor) -> Tensor:
    """p(token | x_t) of independent tokens from PRIOR: Bayes' rule for two Gaussians' means."""
    t = t[:, None, None]
    return (PRIOR.log() + t * x / (1 - t).clamp(min=1e-6) ** 2).softmax(-1)


@pytest.fixture
def flow(configured: Make) -> FLM:
    """An FLM whose denoiser is the exact one."""
    model = FLM(configured("algo=flm", "model.length=2"), VOCABULARY, torch.float32)
    model.denoised = lambda x, tau: posterior(x, model.clock.signal(tau)).log()
    return model


def test_noisy_rows_have_the_mean_and_the_spread_of_the_path(flow: FLM) -> None:
    torch.manual_seed(0)
    x = flow.mixed(torch.full((20_000, 1), 2), torch.full((20_000,), 0.7))[:, 0]
    torch.testing.assert_close(x.mean(0), 0.7 * torch.eye(4)[2], rtol=0, atol=0.01)
    torch.testing.assert_close(x.std(0), torch.full((4,), 0.3), rtol=0.03, atol=0)


def test_the_flow_of_the_exact_denoiser_ends_in_the_data(flow: FLM) -> None:
    torch.manual_seed(0)
    rows = flow.sample(3000, steps=64)
    seen = torch.bincount(rows.flatten(), minlength=WORDS) / rows.numel()
    assert (seen - PRIOR).abs().max() < 0.03


def test_the_loss_of_the_exact_denoiser_is_least(flow: FLM) -> None:
    torch.manual_seed(0)
    tokens = torch.multinomial(PRIOR, 8000, replacement=True)[:, None]
    uniform = torch.linspace(0, 0.999, 8000)
    torch.manual_seed(1)
    best = flow(tokens, uniform).mean()
    exact = flow.denoised
    flow.denoised = lambda x, tau: (exact(x, tau) * 0.8).log_softmax(-1)
    torch.manual_seed(1)
    assert best < flow(tokens, uniform).mean()
    assert best < -(PRIOR * PRIOR.log()).sum()


def test_an_fmlm_begins_as_its_teacher(configured: Make, teacher_of: Callable[..., str]) -> None:
    path = teacher_of("algo=flm", VOCABULARY)
    model = taught(
        FMLM(configured("algo=fmlm", f"algo.teacher_path={path}"), VOCABULARY, torch.float32)
    )
    model.train()
    assert not model.teacher.training
    model.eval()
    x, tau = torch.randn(2, 3, WORDS), torch.tensor([0.2, 0.6])
    wanted = model.teacher(x, tau).log_softmax(-1)
    torch.testing.assert_close(model.mapped(x, tau, tau), wanted)
    torch.testing.assert_close(model.mapped(x, tau, tau + 0.3), wanted)  # its second time is muted


def exact(model: FLM, steps: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The two-time denoiser of the exact flow, by small Euler steps."""

    def mapped(x: Tensor, now: Tensor, then: Tensor) -> Tensor:
        s, t = (model.clock.signal(tau)[:, None, None].double() for tau in (now, then))
        y = x.double()
        for place in range(steps):
            a = s + (t - s) * place / steps
            y = y + (t - s) / steps * (posterior(y, a[:, 0, 0]) - y) / (1 - a)
        mean = ((1 - s) * y - (1 - t) * x) / (t - s)
        return mean.clamp(min=1e-12).log().float()

    return mapped


@pytest.fixture
def flow_map(configured: Make, teacher_of: Callable[..., str]) -> FMLM:
    """An FMLM whose map is that of an exact flow, by many small Euler steps."""
    path = teacher_of("algo=flm", VOCABULARY)
    model = taught(
        FMLM(configured("algo=fmlm", f"algo.teacher_path={path}"), VOCABULARY, torch.float32)
    )

    model.mapped = exact(model, 3000)
    return model


@torch.no_grad()
def test_two_halves_of_an_exact_map_are_the_whole(flow_map: FMLM) -> None:
    torch.manual_seed(0)
    x, now, then = (
        torch.randn(5, 2, WORDS),
        torch.linspace(0.1, 0.4, 5),
        torch.linspace(0.8, 0.9, 5),
    )
    whole = flow_map.mapped(x, now, then).exp()
    torch.testing.assert_close(flow_map.halves(x, now, then), whole, rtol=0, atol=3e-3)
    # And the identity is no triviality: the halves differ from each other.
    assert (flow_map.mapped(x, now, (now + then) / 2).exp() - whole).abs().max() > 0.05


def test_the_whole_step_learns_from_its_second_half_alone(flow_map: FMLM) -> None:
    given = {}

    def mapped(x: Tensor, now: Tensor, then: Tensor) -> Tensor:
        given[round(now[0].item(), 3)] = x
        return torch.full(x.shape, -math.log(WORDS)) if now[0] == 0 else PRIOR.log().expand(x.shape)

    flow_map.mapped = mapped
    x = torch.randn(1, 2, WORDS)
    target = flow_map.halves(x, torch.tensor([0.0]), torch.tensor([1.0]))
    torch.testing.assert_close(target, PRIOR.expand(1, 2, WORDS), rtol=0, atol=1e-6)
    u = flow_map.clock.signal(torch.tensor(0.5))
    torch.testing.assert_close(given[0.5], (1 - u) * x + u / WORDS)


def test_times_are_on_the_diagonal_whole_or_between(flow_map: FMLM) -> None:
    torch.manual_seed(0)
    count = 20_000
    now, then = flow_map.times((torch.rand(count) + torch.arange(count)) / count)
    assert torch.all((now >= 0) & (now <= then) & (then <= 1))
    assert (now == then).double().mean().item() == pytest.approx(0.5, abs=0.02)
    whole = ((now == 0) & (then == 1)).double().mean().item()
    assert whole == pytest.approx(1 / 64, abs=0.005)


def test_gradients_are_those_of_finite_differences(
    configured: Make, teacher_of: Callable[..., str]
) -> None:
    path = teacher_of("algo=flm", VOCABULARY)
    config = configured("algo=fmlm", f"algo.teacher_path={path}")
    model = perturbed(taught(FMLM(config, VOCABULARY, torch.float32)).double().eval(), 0.1)
    tokens, uniform = torch.tensor([[0, 1, 2], [3, 1, 0]]), torch.tensor([0.4, 0.6])
    now, then = torch.tensor([0.2, 0.5]).double(), torch.tensor([0.7, 0.5]).double()
    model.times = lambda uniform: (now, then)
    torch.manual_seed(1)
    target = model.target(model.mixed(tokens, model.clock.signal(now)), now, then)
    model.target = lambda x, now, then: target  # held fixed, as the paper does

    def loss() -> Tensor:
        torch.manual_seed(1)
        return model(tokens, uniform).mean()

    loss().backward()
    for name in (
        "vocab_embed.embedding",
        "sigma_map_prime.mlp.0.weight",
        "blocks.0.attn_qkv.weight",
    ):
        parameter = model.backbone.get_parameter(name)
        direction = torch.randn(parameter.shape, dtype=torch.float64)
        slope = (parameter.grad * direction).sum().item()
        with torch.no_grad():
            parameter += 1e-5 * direction
            up = loss().item()
            parameter -= 2e-5 * direction
            down = loss().item()
            parameter += 1e-5 * direction
        assert (up - down) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-8), name


@pytest.mark.parametrize("steps", [1, 3])
def test_the_samples_of_an_exact_map_are_the_data(flow_map: FMLM, steps: int) -> None:
    flow_map.mapped = exact(flow_map, 100)
    torch.manual_seed(0)
    rows = flow_map.sample(1500, steps)
    seen = torch.bincount(rows.flatten(), minlength=WORDS) / rows.numel()
    assert (seen - PRIOR).abs().max() < 0.04


def test_gradients_of_the_flow_are_those_of_finite_differences(configured: Make) -> None:
    model = FLM(configured("algo=flm", "model.length=3"), VOCABULARY, torch.float32)
    model = perturbed(model.double().eval(), 0.1)
    tokens, uniform = torch.tensor([[0, 1, 2], [3, 1, 0]]), torch.tensor([0.4, 0.6]).double()

    def loss() -> Tensor:
        torch.manual_seed(1)
        return model(tokens, uniform).mean()

    check_gradients(model, loss, "vocab_embed.embedding", "blocks.0.attn_qkv.weight")

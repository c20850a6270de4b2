"""Di4C: its identities on mixtures that can be enumerated."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from algorithms.di4c import Di4C, averaged, divergence, gain
from omegaconf import DictConfig
from small_models import check_gradients, perturbed, taught
from torch import Tensor
from vocabulary import Vocabulary

from harness.recipes import load

ROOT = Path(__file__).parents[2]
WORDS = 3
VOCABULARY = Vocabulary(WORDS, None, 0)


@pytest.fixture
def model(configured: Callable[..., DictConfig], teacher_of: Callable[..., str]) -> Di4C:
    """A student and its teacher, as they start."""
    path = teacher_of("algo=mdlm", VOCABULARY)
    config = configured(
        f"parameterization.checkpoint_path={path}",
        "is_di4c=true",
        "latent_bsize=8",
        *("T=16", "distil_delta=0.2"),
        "+dlb_student_init=teacher",
        tree="configs_rounds",
    )
    return taught(Di4C(config, VOCABULARY, torch.float32)).eval()


def test_gain_is_the_joints_log_ratio_to_the_product_of_marginals() -> None:
    torch.manual_seed(0)
    log_p = torch.randn(2, 5, 3, WORDS, dtype=torch.float64).log_softmax(-1)  # five components
    rows = torch.tensor(list(itertools.product(range(WORDS), repeat=3)))
    gains = gain(log_p, rows.expand(2, -1, -1))
    p = log_p.exp()
    joints = torch.stack([p[:, :, range(3), row].prod(-1).mean(1) for row in rows], 1)
    products = torch.stack([p.mean(1)[:, range(3), row].prod(-1) for row in rows], 1)
    torch.testing.assert_close(gains, joints.log() - products.log())
    torch.testing.assert_close(joints.sum(-1), torch.ones(2).double())
    # Its mean under the joint is the correlation that a product cannot have.
    assert (joints * gains).sum(-1).min() > 0


def test_a_mixture_of_one_component_gains_nothing() -> None:
    log_p = torch.randn(2, 1, 4, WORDS).log_softmax(-1)
    assert gain(log_p, torch.randint(0, WORDS, (2, 7, 4))).abs().max() < 1e-5


def test_means_and_divergences() -> None:
    p = torch.tensor([[0.5, 0.5], [0.1, 0.9]])
    torch.testing.assert_close(averaged(p.log(), 0).exp(), p.mean(0))
    wanted = sum(0.5 * math.log(0.5 / q) for q in (0.1, 0.9))
    found = divergence(p[:1].log(), p[1:].log())
    assert found.item() == pytest.approx(wanted)


def test_unmasked_tokens_are_certain(model: Di4C) -> None:
    noisy = torch.tensor([[0, model.mask, 2]])
    p = model.predicted(noisy, torch.tensor([0.5])).exp()[0]
    assert p[0].tolist() == [1, 0, 0, 0]
    assert p[2].tolist() == [0, 0, 1, 0]
    assert p[1, :3].min() > 0
    assert p[1, 3] == 0


def test_a_student_begins_near_its_teacher_but_depends_on_its_number(model: Di4C) -> None:
    noisy = torch.full((1, 5), model.mask)
    told = torch.zeros(1)
    results = [model.backbone(noisy, told, latent=torch.tensor([z])) for z in (0.1, 0.9)]
    assert not torch.equal(*results)
    assert torch.equal(model.backbone.vocab_embed.embedding, model.teacher.vocab_embed.embedding)


def test_the_token_of_the_number_has_no_position(model: Di4C) -> None:
    """Rows that are each other's rotation by a place see the number's token alike."""
    backbone = model.backbone
    for block in backbone.blocks:  # only that token is attended to by content
        torch.nn.init.zeros_(block.attn_qkv.weight)
    noisy = torch.tensor([[0, 1, 2, 0]])
    first = backbone(noisy, torch.zeros(1), latent=torch.tensor([0.3]))
    moved = backbone(noisy.roll(1, 1), torch.zeros(1), latent=torch.tensor([0.3]))
    torch.testing.assert_close(moved, first.roll(1, 1))


def test_times_lie_on_the_grid_and_are_one_for_the_batch(model: Di4C) -> None:
    torch.manual_seed(0)
    times = torch.stack([model.time(torch.rand(3)) for _ in range(400)])
    assert torch.equal(times[:, 0], times[:, 2])
    torch.testing.assert_close(times * 16, (times * 16).round())
    assert times.min() == 1 / 16
    assert times.max() == 1
    # 0.3 of the batches are drawn below 0.2, and rounded up to four of the grid's times: all but
    # the last of these have the distillation loss.
    assert (times == 1 / 16).double().mean().item() == pytest.approx(0.3 / 3.2, abs=0.05)
    assert (times < 0.2).double().mean().item() == pytest.approx(0.3 * 3 / 3.2, abs=0.07)


@pytest.mark.parametrize("model", ["mdlm_di4c", "duo_di4c"])
@pytest.mark.parametrize("dataset", ["lm1b", "owt"])
@pytest.mark.parametrize("profile", ["paper", "smoke", "study", "conform"])
def test_every_recipe_takes_both_losses(model: str, dataset: str, profile: str) -> None:
    recipe = load(ROOT).recipe(model, dataset, profile)
    told = dict(one.split("=", 1) for one in (*recipe.listed, *recipe.additions))
    delta = float(told.get("distil_delta", 0.02))
    assert 1 / int(told["T"]) < delta < 1


def test_a_grid_without_early_times_is_refused(configured: Callable[..., DictConfig]) -> None:
    rounds = ("is_di4c=true", "T=50", "distil_delta=0.02", "+dlb_student_init=scratch")
    config = configured("parameterization.checkpoint_path=x", *rounds, tree="configs_rounds")
    with pytest.raises(SystemExit, match="no step of T=50 is below distil_delta=0.02"):
        Di4C(config, VOCABULARY, torch.float32)


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_times_are_even_whatever_the_batch(model: Di4C, rows: int) -> None:
    """Each row's uniform number is from a stratum of its own, as the training loop has it."""
    torch.manual_seed(0)
    strata = torch.arange(rows)
    times = torch.stack([model.time((torch.rand(rows) + strata) / rows)[0] for _ in range(2000)])
    late = (times > 0.5).double().mean().item()
    assert late == pytest.approx(0.7 * 0.5 / 0.8, abs=0.04)


def test_losses_against_their_definitions(model: Di4C) -> None:
    """Both kinds of batch, recomputed from the networks' own predictions."""
    perturbed(model.backbone, 0.1)
    tokens = torch.tensor([[0, 2, 1, 1, 0]])
    noisy = torch.tensor([[0, model.mask, model.mask, 1, model.mask]])
    model.masked = lambda tokens, t: noisy == model.mask
    torch.manual_seed(2)
    student = model.predicted(noisy.expand(8, -1), torch.full((8,), 0.5))[None]
    later = torch.randn(8, 5, WORDS + 1).log_softmax(-1)
    target = model.carried(model.unmasked(model.teacher(noisy, torch.zeros(1))), noisy)
    marginal = averaged(student, 1)
    data = (
        divergence(target, marginal)
        - model.weight(torch.tensor([0.5])) * gain(student, tokens[:, None])[:, 0]
    )
    model.later = lambda noisy, t, target: later

    def at(time: float) -> Tensor:
        model.time = lambda uniform: torch.tensor([time])
        model.weight = lambda t: 0.1 / (1 + math.exp(-20 * 0.0))
        predictions = iter([student[0]])
        model.predicted = lambda noisy, t: next(predictions)
        torch.manual_seed(4)
        return model(tokens, torch.rand(1))

    near = at(0.01)
    torch.testing.assert_close(near, data + divergence(target[:, None], student).mean(1))
    far = at(0.5)
    torch.manual_seed(4)
    torch.rand(1)
    drawn = torch.multinomial(later.exp().double().flatten(0, 1), 1).view(1, 8, 5)
    consistency = divergence(averaged(later[None], 1), marginal) - gain(student, drawn).mean(1)
    torch.testing.assert_close(far, data + consistency)


def test_gradients_reach_the_student_alone(model: Di4C) -> None:
    perturbed(model.backbone, 0.1)
    for time in (0.01, 0.5):
        model.time = lambda uniform, time=time: torch.tensor([time]).expand(len(uniform))
        model(torch.randint(0, WORDS, (2, 5)), torch.rand(2)).mean().backward()
    assert all(p.grad is not None for p in model.backbone.parameters())
    assert all(p.grad is None for p in model.teacher.parameters())


@pytest.mark.parametrize("time", [0.0625, 0.5])
def test_gradients_are_those_of_finite_differences(model: Di4C, time: float) -> None:
    model.double()
    perturbed(model.backbone, 0.1)
    tokens = torch.randint(0, WORDS, (2, 5))
    model.time = lambda uniform: torch.full((2,), time, dtype=torch.float64)
    model.masked = lambda tokens, t: torch.ones_like(tokens, dtype=torch.bool)
    scores = model.unmasked(torch.randn(16, 5, WORDS + 1, dtype=torch.float64))
    later = scores.log_softmax(-1)
    model.later = lambda noisy, t, target: later  # held fixed, as the paper does

    def loss() -> Tensor:
        torch.manual_seed(1)
        return model(tokens, torch.rand(2)).mean()

    names = ("vocab_embed.embedding", "blocks.0.attn_qkv.weight", "latent_projection.0.weight")
    check_gradients(model, loss, *names)

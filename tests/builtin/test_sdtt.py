"""SDTT: rounds, targets and what is averaged."""

from collections.abc import Callable

import pytest
import torch
from algorithms.sdtt import SDTT
from ema import Average
from omegaconf import DictConfig
from small_models import check_gradients, perturbed, taught
from torch import Tensor
from vocabulary import Vocabulary

WORDS = 4
VOCABULARY = Vocabulary(WORDS, None, 0)


@pytest.fixture
def make(
    configured: Callable[..., DictConfig], teacher_of: Callable[..., str]
) -> Callable[..., SDTT]:
    """A student and its teacher, as they start."""
    path = teacher_of("algo=mdlm", VOCABULARY)

    def build(*overrides: str) -> SDTT:
        config = configured(
            f"parameterization.checkpoint_path={path}",
            "parameterization.grow_dt_every=10",
            "parameterization.orig_num_sampling_steps=32",
            "trainer.max_steps=30",
            *overrides,
            tree="configs_rounds",
        )
        return taught(SDTT(config, VOCABULARY, torch.float32)).eval()

    return build


def test_the_stride_doubles_and_too_many_rounds_are_refused(make: Callable[..., SDTT]) -> None:
    strides = [make().stride(step) for step in (0, 9, 10, 20)]
    assert strides == pytest.approx([1 / 32, 1 / 32, 1 / 16, 1 / 8], rel=1e-4)
    with pytest.raises(SystemExit, match="below 8 steps"):
        make("trainer.max_steps=31")


def test_targets_are_the_teachers_at_the_step_that_revealed_the_token(
    make: Callable[..., SDTT],
) -> None:
    model = make()
    seen: list[Tensor] = []

    def teacher(noisy: Tensor, sigma: Tensor) -> Tensor:
        seen.append(noisy)
        logits = torch.zeros(*noisy.shape, WORDS + 1)
        logits[..., len(seen) - 1] = 50.0  # certain of token 0 first, of token 1 next
        return logits

    model.teacher.forward = teacher
    torch.manual_seed(0)
    noisy = torch.full((200, 6), model.mask)
    noisy[:, 0] = 3
    target = model.target(noisy, torch.full((200,), 0.6), 0.2).argmax(-1)
    hidden = seen[1] == model.mask
    assert len(seen) == 2
    assert torch.equal(seen[1][:, 0], noisy[:, 0])  # what was unmasked stays
    assert torch.all(seen[1][~hidden & (noisy == model.mask)] == 0)
    assert torch.all(target[hidden] == 1)  # still masked: the second prediction
    assert torch.all(target[:, 1:][~hidden[:, 1:]] == 0)  # revealed by the first
    share = hidden[:, 1:].double().mean().item()
    assert share == pytest.approx(2 / 3, abs=0.04)  # (t - dt) / t stay masked


def test_a_teacher_that_agrees_costs_nothing_and_the_mean_is_over_masked_tokens(
    make: Callable[..., SDTT],
) -> None:
    model = make()
    tokens, uniform = torch.randint(0, WORDS, (16, 6)), torch.rand(16)
    model.target = lambda noisy, t, dt: model.logits(noisy, model.kept(t)).log_softmax(-1)
    assert model(tokens, uniform, 0).abs().max() < 1e-5
    flat = torch.full((16, 6, WORDS + 1), WORDS).float().reciprocal().log()
    model.target = lambda noisy, t, dt: flat
    torch.manual_seed(0)
    masked = model.masked(tokens, model.first_time + (1 - model.first_time) * uniform)
    noisy = torch.where(masked, model.mask, tokens)
    student = model.logits(noisy, torch.ones(16)).log_softmax(-1)
    divergence = (student.exp() * (student - flat)).sum(-1)[masked].mean()
    torch.manual_seed(0)
    torch.testing.assert_close(model(tokens, uniform, 0).mean(), divergence)


def test_the_teacher_is_replaced_at_a_rounds_start_only(make: Callable[..., SDTT]) -> None:
    model = make()
    average = Average(model.backbone.parameters(), 0.9)
    perturbed(model.backbone)
    mine = model.backbone.vocab_embed.embedding
    model.begin(9, average)
    assert not torch.equal(model.teacher.vocab_embed.embedding, mine)
    model.begin(10, average)
    assert torch.equal(model.teacher.vocab_embed.embedding, mine)
    assert not model.teacher.vocab_embed.embedding.requires_grad


def test_gradients_are_those_of_finite_differences(make: Callable[..., SDTT]) -> None:
    model = make().double()
    perturbed(model.backbone, 0.1)
    tokens, uniform = torch.randint(0, WORDS, (3, 6)), torch.tensor([0.3, 0.6, 0.9]).double()

    def loss() -> Tensor:
        torch.manual_seed(1)
        return model(tokens, uniform, 0).mean()

    check_gradients(model, loss, "vocab_embed.embedding", "blocks.0.attn_qkv.weight")

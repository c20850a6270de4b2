"""An adapted teacher in the student's own code says what the original says in its own code.

Both sides are the papers' code, read where HARNESS_MIRRORS names a folder of mirrors: the
checkpoint is of the original's model, adapted as a launch adapts it, and loaded by name.
"""

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import upstream
from omegaconf import DictConfig, OmegaConf

from harness.inside.teacher import adapt

MIRRORS = os.environ.get("HARNESS_MIRRORS")
pytestmark = pytest.mark.skipif(
    not MIRRORS, reason="HARNESS_MIRRORS names no folder of upstream mirrors"
)
BASE, BLOCKS, LENGTH, ROWS = 120, 2, 16, 4
BERT_MASK = 103
STUDENTS = {"sdtt": ("jdeschena+sdtt", "src"), "di4c": ("sony+di4c", "sdtt/src")}


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., list[ModuleType]]:
    def load(name: str, *modules: str, under: str = ".") -> list[ModuleType]:
        tree = upstream.export(Path(str(MIRRORS)), name, tmp_path / name)
        return upstream.imported(tree / under, *modules)

    return load


@pytest.fixture
def config(configured: Callable[..., DictConfig]) -> DictConfig:
    found = configured(f"model.length={LENGTH}", f"model.n_blocks={BLOCKS}")
    plain = OmegaConf.create(OmegaConf.to_container(found, resolve=False))
    plain.model.scale_by_sigma, plain.model.tie_word_embeddings = True, False
    plain.algo = {"causal_attention": False}
    return plain


def disturbed(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Weights of some size everywhere: a new model's last layer says nothing."""
    torch.manual_seed(seed)
    for weight in model.parameters():
        weight.data += 0.2 * torch.randn_like(weight)
    return model.eval()


def bare(kind: type, backbone: torch.nn.Module, **fields: object) -> Any:
    """An upstream's trainer with only what its prediction reads."""
    model: Any = kind.__new__(kind)
    torch.nn.Module.__init__(model)
    model.backbone = backbone
    for name, value in fields.items():
        object.__setattr__(model, name, value)
    return model


def checkpoint(path: Path, model: torch.nn.Module) -> Path:
    """As Lightning saves it: other weights as the last step's, the model's as their averages."""
    averages = [weight.detach().clone() for weight in model.parameters()]
    state = {f"backbone.{name}": tensor.clone() for name, tensor in model.state_dict().items()}
    for name, _ in model.named_parameters():
        state[f"backbone.{name}"] += 1
    ema = {"decay": 0.9999, "num_updates": 3, "shadow_params": averages}
    torch.save({"state_dict": state, "ema": ema, "global_step": 3}, path)
    return path


def raw(path: Path, model: torch.nn.Module) -> Path:
    state = {f"_orig_mod.backbone.{name}": t for name, t in model.state_dict().items()}
    torch.save({"state_dict": state, "global_step": 3}, path)
    return path


def student(
    exported: Callable[..., list[ModuleType]], config: DictConfig, which: str, teacher: Path
) -> Any:
    """The student's trainer with its teacher from the adapted file, every name required."""
    name, under = STUDENTS[which]
    distil, dit = exported(
        name, "sdtt.core.distill.multi_round_sdtt", "sdtt.models.dit_orig", under=under
    )
    backbone = dit.DIT(config, vocab_size=BASE + 1)
    backbone.load_state_dict(torch.load(teacher, weights_only=True)["state_dict"], strict=True)
    return bare(
        distil.MultiRoundSDTT,
        backbone.eval(),
        teacher=[backbone.eval()],
        mask_index=BASE,
        neg_infinity=-1e6,
        time_conditioning=True,
    )


def probes(mask: int, of: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (ROWS, LENGTH), half of them masked, and noise levels (ROWS,)."""
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(0, of, (ROWS, LENGTH), generator=generator)
    hidden = torch.rand(ROWS, LENGTH, generator=generator) < 0.5
    return torch.where(hidden, mask, tokens), torch.rand(ROWS, generator=generator)


@torch.no_grad()
@pytest.mark.parametrize("which", STUDENTS)
@pytest.mark.parametrize("weights", ["raw", "ema"])
@pytest.mark.parametrize("mask", [BERT_MASK, BASE])
def test_a_masked_teacher(
    exported: Callable[..., list[ModuleType]],
    config: DictConfig,
    tmp_path: Path,
    which: str,
    weights: str,
    mask: int,
) -> None:
    diffusion, dit = exported("kuleshov-group+mdlm", "diffusion", "models.dit")
    original = disturbed(dit.DIT(config, vocab_size=BASE + (mask == BASE)))
    save = raw if weights == "raw" else checkpoint
    adapted = tmp_path / "adapted.ckpt"
    adapt(save(tmp_path / "t", original), adapted, "masked_to_absorbing", weights, BASE, BLOCKS)
    theirs = bare(
        diffusion.Diffusion,
        original,
        config=config,
        mask_index=mask,
        parameterization="subs",
        neg_infinity=-1e6,
        time_conditioning=True,
    )
    tokens, sigma = probes(mask, BASE)
    before = theirs(tokens, sigma)
    moved = torch.where(tokens == mask, BASE, tokens)
    after = student(exported, config, which, adapted).forward_teacher(moved, sigma)
    kept = [token for token in range(BASE) if token != mask]
    torch.testing.assert_close(after[..., kept], before[..., kept], rtol=1e-5, atol=1e-5)
    masked = tokens == mask
    assert before[masked].std() > 0.5  # it does say something
    assert (after[masked][:, [BASE, BERT_MASK] if mask != BASE else [BASE]] < -1e5).all()


@torch.no_grad()
@pytest.mark.parametrize("weights", ["raw", "ema"])
@pytest.mark.parametrize("padding", [0, 1])
def test_a_uniform_teacher(
    exported: Callable[..., list[ModuleType]],
    config: DictConfig,
    tmp_path: Path,
    weights: str,
    padding: int,
) -> None:
    algo, dit = exported("s-sahoo+duo", "algo", "models.dit")
    original = disturbed(dit.DIT(config, vocab_size=BASE + padding))
    save = raw if weights == "raw" else checkpoint
    adapted = tmp_path / "adapted.ckpt"
    adapt(save(tmp_path / "t", original), adapted, "uniform_to_absorbing", weights, BASE, BLOCKS)
    theirs = bare(algo.DUO_BASE, original)
    tokens, sigma = probes(0, BASE)
    logits = original(tokens, sigma)
    logits[..., BASE:] = -1e6  # a padding row is of no token, and is never drawn
    before = theirs._process_model_output(logits, tokens, sigma)
    model = student(exported, config, "di4c", adapted)
    seen = model.backbone(tokens, sigma)
    # As for hidden tokens: of those that are seen the student's code says what they are.
    after = model._subs_parameterization(seen, torch.full_like(tokens, BASE))
    assert before.std() > 0.5
    torch.testing.assert_close(after[..., :BASE], before[..., :BASE], rtol=1e-5, atol=1e-5)
    assert (after[..., BASE] < -1e5).all()

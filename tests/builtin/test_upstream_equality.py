"""Equal weights and equal noise give the papers' own code and ours equal losses.

Runs where HARNESS_MIRRORS names a folder of mirrors of the upstreams.
"""

import copy
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
import upstream
from algorithms.candi import CANDI
from algorithms.distillation import DCD
from algorithms.duo import Duo
from algorithms.mdlm import MDLM
from argmax import kept
from omegaconf import DictConfig, OmegaConf, open_dict
from small_models import perturbed
from vocabulary import Vocabulary

MIRRORS = os.environ.get("HARNESS_MIRRORS")
pytestmark = pytest.mark.skipif(
    not MIRRORS, reason="HARNESS_MIRRORS names no folder of upstream mirrors"
)
WORDS, LENGTH, ROWS = 11, 6, 4
Exported = Callable[..., list[ModuleType]]


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    def load(name: str, *modules: str) -> list[ModuleType]:
        tree = upstream.export(Path(str(MIRRORS)), name, tmp_path / name)
        return upstream.imported(tree, *modules)

    return load


def tokens() -> torch.Tensor:
    return torch.randint(0, WORDS, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))


def bare(kind: type, backbone: torch.nn.Module, **fields: object) -> torch.nn.Module:
    """An upstream's trainer with only what its loss reads."""
    model = kind.__new__(kind)
    torch.nn.Module.__init__(model)
    model.backbone = backbone.eval()
    for name, value in fields.items():
        object.__setattr__(model, name, value)
    return model


def test_mdlm(exported: Exported, configured: Callable[..., DictConfig]) -> None:
    diffusion, dit, noise = exported(
        "kuleshov-group+mdlm", "diffusion", "models.dit", "noise_schedule"
    )
    config = configured(f"model.length={LENGTH}")
    mine = perturbed(MDLM(config, Vocabulary(WORDS, None, None), torch.float32).eval(), 0.2)
    with open_dict(config):
        config.model.scale_by_sigma = True
    theirs = dit.DIT(config, vocab_size=WORDS + 1)
    theirs.load_state_dict(mine.backbone.state_dict())
    model = bare(
        diffusion.Diffusion,
        theirs,
        config=config,
        mask_index=WORDS,
        parameterization="subs",
        antithetic_sampling=True,
        importance_sampling=False,
        change_of_variables=False,
        sampling_eps=1e-3,
        time_conditioning=False,
        T=0,
        neg_infinity=-1e6,
        noise=noise.LogLinearNoise(),
    )
    torch.manual_seed(3)
    wanted = model._forward_pass_diffusion(tokens())
    torch.manual_seed(3)
    uniform = (torch.rand(ROWS) + torch.arange(ROWS)) / ROWS
    found = mine(tokens(), uniform)
    assert (wanted > 0).sum() > ROWS
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def duo_model(
    exported: Exported, mine: Duo, config: DictConfig, kind: str, **fields: object
) -> torch.nn.Module:
    algo, dit, base = exported("s-sahoo+duo", "algo", "models.dit", "trainer_base")
    config = OmegaConf.create(OmegaConf.to_container(config, resolve=False))
    config.algo.causal_attention = False
    config.model.scale_by_sigma = True
    config.training.loss_precision = "float32"
    theirs = dit.DIT(config, vocab_size=WORDS)
    theirs.load_state_dict(mine.backbone.state_dict())
    accumulated = SimpleNamespace(
        num_nodes=1, node_rank=0, num_devices=1, local_rank=0, accumulate_grad_batches=1
    )
    return bare(
        getattr(algo, kind),
        theirs,
        config=config,
        vocab_size=WORDS,
        antithetic_sampling=True,
        sampling_eps=1e-3,
        time_conditioning=True,
        T=0,
        ignore_bos=False,
        class_conditional=False,
        loss_type="elbo",
        noise=base.LogLinear(1e-3),
        trainer=accumulated,
        dtype=torch.float32,
        device=torch.device("cpu"),
        **fields,
    )


def test_duo_bound(exported: Exported, configured: Callable[..., DictConfig]) -> None:
    config = configured("algo=duo", f"model.length={LENGTH}", f"loader.global_batch_size={ROWS}")
    mine = perturbed(Duo(config, Vocabulary(WORDS, None, 0), torch.float32).eval(), 0.2)
    model = duo_model(exported, mine, config, "DUO_BASE")
    torch.manual_seed(3)
    wanted = model.nll(tokens(), None, None)
    torch.manual_seed(3)
    uniform = (torch.rand(ROWS) + torch.arange(ROWS)) / ROWS
    found = mine.measure(tokens(), uniform)
    torch.testing.assert_close(found, wanted, rtol=2e-5, atol=1e-5)


def table(low: float, high: float) -> dict[str, object]:
    """alpha in the form that the upstream reads it: p of the argmax on a fine grid of gamma."""
    gamma = torch.linspace(low, high, 4001, dtype=torch.float64)
    p = (kept(torch.exp(-gamma / 2), WORDS)[0] * (WORDS - 1) + 1) / WORDS
    fine = torch.linspace(low, high, 4_000_001, dtype=torch.float64)
    p = torch.from_numpy(np.interp(fine.numpy(), gamma.numpy(), p.numpy()))
    limits = {"gamma_min": low, "gamma_max": high, "num_points": len(fine)}
    return {"pt": p, "grad_pt": torch.zeros_like(p), **limits}


def test_duo_curriculum(exported: Exported, configured: Callable[..., DictConfig]) -> None:
    config = configured(
        "algo=duo",
        f"model.length={LENGTH}",
        f"loader.global_batch_size={ROWS}",
        "algo.curriculum.gumbel_tau_log10_start=-1.0",
        "algo.curriculum.gumbel_tau_log10_end=-1.0",
    )
    mine = perturbed(Duo(config, Vocabulary(WORDS, None, 0), torch.float32).eval(), 0.2)
    model = duo_model(
        exported,
        mine,
        config,
        "DUO",
        gamma_min=-3.5,
        gamma_max=-1.75,
        gumbel_tau_log10_start=-1.0,
        gumbel_tau_log10_end=-1.0,
        curriculum_start=100_000,
        curriculum_end=200_000,
        global_step=0,
        integral_cache=table(-3.6, -1.7),
    )
    torch.manual_seed(3)
    wanted = model.nll(tokens(), None, 0, train_mode=True)
    torch.manual_seed(3)
    uniform = (torch.rand(ROWS) + torch.arange(ROWS)) / ROWS
    found = mine(tokens(), uniform, 0)
    # Theirs takes the nearest point of a table, and alpha' from the difference of two.
    torch.testing.assert_close(found.double(), wanted.double(), rtol=3e-3, atol=1e-4)


def test_dcd(
    exported: Exported,
    configured: Callable[..., DictConfig],
    teacher_of: Callable[..., str],
) -> None:
    path = teacher_of("algo=duo", Vocabulary(WORDS, None, 0), f"model.length={LENGTH}")
    config = configured(
        "algo=distillation",
        f"model.length={LENGTH}",
        f"loader.global_batch_size={ROWS}",
        f"training.finetune_path={path}",
        "algo.T=8",
        "+algo.curriculum.gamma_min=-4",
        "+algo.curriculum.gamma_max=-1",
    )
    mine = DCD(config, Vocabulary(WORDS, None, 0), torch.float32).eval()
    teacher = {name: value.clone() for name, value in mine.teacher.state_dict().items()}
    perturbed(mine.backbone, 0.1, seed=4)
    model = duo_model(
        exported,
        mine,
        config,
        "Distillation",
        gamma_min=-4,
        gamma_max=-1,
        global_step=1,
        update_teacher_every=10_000,
        linear_growth_dt=False,
        integral_cache=table(-4.0, -1.0),
    )
    object.__setattr__(model, "teacher", copy.deepcopy(model.backbone))
    model.teacher.load_state_dict(teacher)
    model.T, model.loss_type = 8, "kl-bwd"
    torch.manual_seed(3)
    wanted = model.nll(tokens(), None, 0)
    torch.manual_seed(3)
    uniform = (torch.rand(ROWS) + torch.arange(ROWS)) / ROWS
    found = mine(tokens(), uniform, 1)
    torch.testing.assert_close(found, wanted.float(), rtol=1e-4, atol=1e-5)


def test_candi(exported: Exported, configured: Callable[..., DictConfig]) -> None:
    algo, dit, base = exported(
        "patrickpynadath1+candi-diffusion", "algo", "models.dit_cont", "trainer_base"
    )
    config = configured("algo=candi", f"model.length={LENGTH}")
    mine = perturbed(CANDI(config, Vocabulary(WORDS, None, 0), torch.float32).eval(), 0.2)
    theirs = dit.ContDIT(config.model, vocab_size=WORDS + 1, mixed_coeff=0.5)
    theirs.load_state_dict(mine.backbone.state_dict())
    grid = torch.linspace(0.2, 4.0, 200_001)
    model = bare(
        algo.CANDI,
        theirs,
        config=config,
        vocab_size=WORDS + 1,
        antithetic_sampling=True,
        sampling_eps=1e-3,
        ignore_bos=False,
        pure_continuous=False,
        is_embed=False,
        temp=1.0,
        min_percentile=0.01,
        max_percentile=0.25,
        neg_infinity=-1e6,
        noise=base.LogLinear(),
        device=torch.device("cpu"),
        continuous_noise=grid,
        discrete_noise=algo.expected_rank(d=WORDS, a=torch.tensor(1), sigma=grid),
    )
    torch.manual_seed(3)
    wanted = model.nll(tokens(), None)
    torch.manual_seed(3)
    uniform = (torch.rand(ROWS) + torch.arange(ROWS)) / ROWS
    found = mine(tokens(), uniform)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)

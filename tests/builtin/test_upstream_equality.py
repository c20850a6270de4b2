"""Equal weights and equal noise give the papers' own code and ours equal losses.

Runs where HARNESS_MIRRORS names a folder of mirrors of the upstreams.
"""

import copy
import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
import upstream
from algorithms import di4c, sdtt
from algorithms.candi import CANDI
from algorithms.di4c import Di4C
from algorithms.distillation import DCD
from algorithms.duo import Duo
from algorithms.flm import FLM
from algorithms.mdlm import MDLM
from algorithms.rdlm import RDLM
from algorithms.sdtt import SDTT
from argmax import kept
from omegaconf import DictConfig, OmegaConf, open_dict
from small_models import perturbed, taught
from vocabulary import Vocabulary

MIRRORS = os.environ.get("HARNESS_MIRRORS")
pytestmark = pytest.mark.skipif(
    not MIRRORS, reason="HARNESS_MIRRORS names no folder of upstream mirrors"
)
WORDS, LENGTH, ROWS = 11, 6, 4
Exported = Callable[..., list[ModuleType]]


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    def load(name: str, *modules: str, under: str = ".") -> list[ModuleType]:
        tree = upstream.export(Path(str(MIRRORS)), name, tmp_path / name)
        return upstream.imported(tree / under, *modules)

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


def levels_of(model: torch.nn.Module) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    """alpha, alpha' and gamma at times t as the upstream's table has them."""

    def levels(t: torch.Tensor) -> tuple[torch.Tensor, ...]:
        gamma = model.gamma_min + t * (model.gamma_max - model.gamma_min)
        alpha, slope = model._gamma_to_alpha_dalpha(gamma, t)
        return alpha, slope, gamma

    return levels


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
    mine.gaussian = levels_of(model)
    torch.manual_seed(3)
    torch.rand(ROWS)  # drawn for `uniform` already
    found = mine(tokens(), uniform, 0)
    torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-5, atol=1e-5)


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
        "+algo.curriculum.mode=simple",
        "+algo.curriculum.gamma_min=-4",
        "+algo.curriculum.gamma_max=-1",
    )
    mine = taught(DCD(config, Vocabulary(WORDS, None, 0), torch.float32)).eval()
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
    mine.gaussian = levels_of(model)
    torch.manual_seed(3)
    torch.rand(ROWS)  # drawn for `uniform` already
    found = mine(tokens(), uniform, 1)
    torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-5, atol=1e-6)


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
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)  # theirs interpolates sigma
    mine.sigma = model.get_continuous_from_discrete_noise
    torch.manual_seed(3)
    torch.rand(ROWS)  # drawn for `uniform` already
    found = mine(tokens(), uniform)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_flm(
    exported: Exported, configured: Callable[..., DictConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.amp, "autocast", lambda *_, **__: nullcontext())  # all in float32
    algo, dit = exported("david3684+flm", "algo", "models.dit")
    config = configured("algo=flm", f"model.length={LENGTH}")
    mine = perturbed(FLM(config, Vocabulary(WORDS, None, 0), torch.float32).eval(), 0.2)
    with open_dict(config):
        config.algo.causal_attention, config.model.scale_by_sigma = False, True
        config.algo.time_conditioning = True
        theirs = dit.DIT(config, vocab_size=WORDS)
    theirs.load_state_dict(mine.backbone.state_dict())
    model = bare(
        algo.FLM,
        theirs,
        config=config,
        vocab_size=WORDS,
        antithetic_sampling=False,
        t_min=0.0,
        t_max=1.0,
        device=torch.device("cpu"),
        _alpha_t_to_gamma=mine.clock.signal,  # theirs needs scipy; ours has its own test
    )
    torch.manual_seed(3)
    wanted = model.loss(tokens(), None)
    torch.manual_seed(3)
    found = mine(tokens(), torch.rand(ROWS))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_rdlm(
    exported: Exported, configured: Callable[..., DictConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    losses, sde, spheres, schedules, distribution, dit = exported(
        "harryjo97+RDLM",
        *("losses", "sde", "hypersphere", "scheduler_lib", "distribution", "model.dit"),
    )
    config = configured(
        *(f"model.length={LENGTH}", "sde.preprocess_steps=50", "sde.preprocess_paths=256"),
        tree="configs_rdlm",
    )
    mine = RDLM(config, Vocabulary(WORDS, None, None), torch.float32).eval()
    perturbed(mine.backbone, 0.2)
    theirs = dit.DiT(3, 3, 16, 2, 8, 0.0, 2)
    theirs.load_state_dict(mine.backbone.state_dict())
    length = LENGTH * mine.digits
    prior = distribution.Mixture(device="cpu", batch_dims=(ROWS, length, 4))
    schedule = schedules.Geometric(
        beta_0=1e-3, beta_f=0.2, weight_type="step", left=0.3, right=0.75, lb=1e-4, ub=1.0
    )
    laws = (mine.masked, mine.uniform)
    path = sde.LogBridge_Mixture(
        spheres.Hypersphere(3),
        schedule,
        prior,
        preprocess_steps=50,
        mix_type="step",
        step_thr=0.0,
        preprocessed=tuple(
            torch.stack([getattr(law, name) for law in laws]) for name in ("alpha", "rho")
        ),
    )
    t = torch.tensor([0.1, 0.4, 0.7, 0.9])
    noise = torch.randn(ROWS, length, 4)
    monkeypatch.setattr(torch, "randn_like", lambda x: noise)
    schedule.importance_weighted_time = lambda shape, device: t
    wanted = losses.get_loss_fn("ce")(path, train=False)
    ends = mine.corners(tokens())
    path.scheduler.importance_weight = lambda time, train: 1.0
    monkeypatch.setattr(torch, "rand", lambda *size, **_: t / (1 - 1e-4))
    wanted = wanted(theirs.eval(), ends)
    mine.time = lambda uniform: (t, torch.ones(ROWS))
    torch.testing.assert_close(mine(tokens(), t), wanted, rtol=1e-5, atol=1e-4)


def test_sdtt(
    exported: Exported,
    configured: Callable[..., DictConfig],
    teacher_of: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distil, dit, noise = exported(
        "jdeschena+sdtt",
        *("sdtt.core.distill.multi_round_sdtt", "sdtt.models.dit_orig"),
        "sdtt.core.diffusion.noise_schedule",
        under="src",
    )
    path = teacher_of("algo=mdlm", Vocabulary(WORDS, None, 0), f"model.length={LENGTH}")
    config = configured(
        f"parameterization.checkpoint_path={path}",
        f"model.length={LENGTH}",
        "parameterization.orig_num_sampling_steps=16",
        "parameterization.min_num_sampling_steps=8",
        "parameterization.grow_dt_every=10",
        "trainer.max_steps=10",
        tree="configs_rounds",
    )
    mine = taught(SDTT(config, Vocabulary(WORDS, None, 0), torch.float32)).eval()
    perturbed(mine.backbone, 0.1, seed=2)
    with open_dict(config):
        config.model.scale_by_sigma = True
    student, theirs = (dit.DIT(config, vocab_size=WORDS + 1).eval() for _ in range(2))
    student.load_state_dict(mine.backbone.state_dict())
    theirs.load_state_dict(mine.teacher.state_dict())
    t, dt = 0.6, mine.stride(0)
    end = t - 2 * dt
    # The release mixes the two steps' times by weights that do not add up to one; these make
    # them t and t - dt, as in the paper.
    weights = torch.tensor([(time - (1 - t) * end) / t for time in (t, t - dt)])
    monkeypatch.setattr(torch, "linspace", lambda *_, **__: weights)
    # Draws that do not depend on their order: fixed uniforms, and the likeliest token.
    monkeypatch.setattr(torch, "rand", fixed_uniforms)
    monkeypatch.setattr(torch, "rand_like", lambda x, **_: fixed_uniforms(*x.shape))
    monkeypatch.setattr(sdtt, "categorical", lambda p: p.argmax(-1))

    def drawn(weights: torch.Tensor) -> torch.Tensor:
        stays = weights[..., WORDS] / weights.sum(-1)
        likeliest = weights[..., :WORDS].argmax(-1)
        return torch.where(fixed_uniforms(*stays.shape) < 1 - stays, likeliest, WORDS)

    monkeypatch.setattr(distil, "sample_categorical", drawn)
    schedule = noise.LogLinearNoise()

    def levels(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        sigma, rate = schedule(t)
        return sigma[:, None], 1 - torch.exp(-sigma[:, None]), rate

    model = bare(
        distil.MultiRoundSDTT,
        student,
        _t_to_sigma=levels,
        config=config,
        teacher=[theirs],
        mask_index=WORDS,
        vocab_size=WORDS + 1,
        neg_infinity=-1e6,
        time_conditioning=False,
        noise=schedule,
        dt=dt,
        num_distill_steps=2,
        sampling_mode="ancestral",
        sampling_eps_tensor=torch.tensor(1e-5),
        loss_precision="32",
        _loss_fn=lambda student, target: distil.MultiRoundSDTT._bwd_kl(None, student, target),
    )
    times = torch.full((ROWS,), t)
    wanted = model.loss(tokens(), t=times)
    uniform = (times - mine.first_time) / (1 - mine.first_time)
    found = mine(tokens(), uniform, 0)
    assert wanted > 1e-4
    torch.testing.assert_close(found.mean(), wanted, rtol=1e-5, atol=1e-7)


def fixed_uniforms(*size: int | torch.Size, **_: object) -> torch.Tensor:
    """Stands for torch.rand: numbers spread over [0, 1), the same at every call."""
    shape = torch.Size(size[0] if size and not isinstance(size[0], int) else size)
    return ((torch.arange(shape.numel()) * 0.618034 + 0.01) % 1).view(shape)


def test_di4c(
    exported: Exported,
    configured: Callable[..., DictConfig],
    teacher_of: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distil, dit, noise = exported(
        "sony+di4c",
        *("sdtt.core.distill.multi_round_sdtt", "sdtt.models.dit_orig"),
        "sdtt.core.diffusion.noise_schedule",
        under="sdtt/src",
    )
    path = teacher_of("algo=mdlm", Vocabulary(WORDS, None, 0), f"model.length={LENGTH}")
    config = configured(
        f"parameterization.checkpoint_path={path}",
        f"model.length={LENGTH}",
        "is_di4c=true",
        "latent_bsize=5",
        "+dlb_student_init=teacher",
        tree="configs_rounds",
    )
    mine = taught(Di4C(config, Vocabulary(WORDS, None, 0), torch.float32)).eval()
    perturbed(mine.backbone, 0.1, seed=2)
    with open_dict(config):
        config.model.scale_by_sigma, config.alpha_t, config.log_unif = True, "sigmoid", False
    student = dit.DIT(config, vocab_size=WORDS + 1)
    student.load_state_dict(mine.backbone.state_dict())
    config.is_di4c = False
    theirs = dit.DIT(config, vocab_size=WORDS + 1).eval()
    theirs.load_state_dict(mine.teacher.state_dict())
    # Draws that do not depend on their order: fixed uniforms, and the likeliest token.
    monkeypatch.setattr(torch, "rand", fixed_uniforms)
    likeliest = lambda p: p.argmax(-1)  # noqa: E731
    monkeypatch.setattr(distil, "sample_categorical", likeliest)
    ancestral = sys.modules.get("sdtt.core.sampling.ancestral")
    assert ancestral is None  # taken out again after the import
    monkeypatch.setitem(
        distil.AncestralSampler._ddpm_update.__globals__, "sample_categorical", likeliest
    )
    monkeypatch.setattr(
        torch.distributions.categorical.Categorical, "sample", lambda self: self.probs.argmax(-1)
    )
    monkeypatch.setattr(di4c, "categorical", likeliest)
    schedule = noise.LogLinearNoise()

    def levels(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        # The release rounds times, which are on the grid, up to it once more: left out.
        sigma, rate = schedule(t)
        return sigma[:, None], 1 - torch.exp(-sigma[:, None]), rate

    model = bare(
        distil.MultiRoundSDTT,
        student,
        _t_to_sigma=levels,
        config=config,
        teacher=[theirs],
        mask_index=WORDS,
        neg_infinity=-1e6,
        T=1024,
        time_conditioning=False,
        change_of_variables=False,
        noise=schedule,
        device=torch.device("cpu"),
        list_cnt=0,
        **{
            name: deque()
            for name in (
                ["distil_list", "data_list", "data_cor_list", "consis_list", "consis_cor_list"]
            )
        },
    )
    for time in (0.015, 0.6):
        t = torch.tensor([time])
        wanted = model.di4c_loss(tokens()[:1], t=t)
        mine.time = lambda uniform, t=t: t
        found = mine(tokens()[:1], t).mean()
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)

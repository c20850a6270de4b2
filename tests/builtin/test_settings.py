"""Settings of the papers' trainers that are not there are refused in a line, never ignored."""

from collections.abc import Callable

import pytest
import start
import torch
from algorithms import build
from omegaconf import DictConfig
from vocabulary import Vocabulary

VOCABULARY = Vocabulary(12, None, None)
ROUNDS = ("parameterization.checkpoint_path=x", "+dlb_student_init=teacher", "trainer.max_steps=9")
RDLM = ("data.tokenizer_name_or_path=x", "sde.preprocess_steps=10", "sde.preprocess_paths=4")
FMLM = ("algo=fmlm", "algo.teacher_path=x")
# Overrides of a configuration that is there, and those that are not.
REFUSED = [
    *((tree, (), "noise.type=cosine") for tree in ("configs", "configs_rounds")),
    *(
        ("configs", (f"algo={name}",), "training.finetune_path=x")
        for name in ("mdlm", "duo", "flm")
    ),
    ("configs", (), "parameterization=d3pm"),
    ("configs", (), "diffusion=uniform"),
    ("configs", (), "T=1000"),
    ("configs", ("algo=duo",), "algo.curriculum.mode=poly9"),
    ("configs", ("algo=distillation",), "+algo.curriculum.mode=poly9"),
    ("configs", ("algo=distillation",), "algo.loss_type=kl-fwd"),
    ("configs", ("algo=distillation",), "algo.linear_growth_dt=true"),
    ("configs", ("algo=flm",), "algo.double_temb=true"),
    ("configs", ("algo=flm",), "algo.learnable_loss_weighting=true"),
    ("configs", FMLM, "algo.double_temb=false"),
    ("configs", FMLM, "algo.learnable_loss_weighting=true"),
    ("configs", FMLM, "algo.distillation_method=LSD"),
    ("configs", FMLM, "algo.use_mse_loss_psd=true"),
    ("configs", ("algo=candi",), "algo.pure_continuous=true"),
    ("configs", ("algo=candi",), "algo.is_embed=true"),
    ("configs", ("algo=candi",), "algo.sampler=ancestral"),
    *(
        ("configs_rounds", (f"is_di4c={di4c}",), "parameterization.start_from_hf=true")
        for di4c in ("true", "false")
    ),
    ("configs_rounds", (), "parameterization.distill_mode=mse"),
    ("configs_rounds", (), "parameterization.use_ema_on_growth=true"),
    ("configs_rounds", ("is_di4c=true",), "is_teacher_di4c=true"),
    ("configs_rounds", ("is_di4c=true",), "dlb_student_init=hf_small"),
    ("configs_rdlm", (), "sde.mix_type=linear"),
    ("configs_rdlm", (), "training.loss_type=mse"),
]


def named(config: DictConfig, tree: str) -> DictConfig:
    """With the algorithm's name, as the entry point of `tree` has it."""
    import rdlm

    if tree == "configs_rdlm":
        return rdlm.common(config)
    if tree == "configs_rounds":
        from omegaconf import open_dict

        with open_dict(config):
            config.algo = {"name": "di4c" if config.is_di4c else "sdtt"}
    return config


@pytest.mark.parametrize(("tree", "overrides", "setting"), REFUSED)
def test_what_is_not_there_is_refused(
    configured: Callable[..., DictConfig], tree: str, overrides: tuple[str, ...], setting: str
) -> None:
    around = {"configs": (), "configs_rounds": ROUNDS, "configs_rdlm": RDLM}[tree]
    build(named(configured(*around, *overrides, tree=tree), tree), VOCABULARY, torch.float32)
    config = named(configured(*around, *overrides, setting, tree=tree), tree)
    key = setting.lstrip("+")
    with pytest.raises(SystemExit, match=rf"(?i)^\w+: {key}: .* is what there is$"):
        build(config, VOCABULARY, torch.float32)


def test_a_student_wants_its_teacher(configured: Callable[..., DictConfig]) -> None:
    student = build(configured("algo=distillation"), VOCABULARY, torch.float32)
    with pytest.raises(SystemExit, match="finetune_path, the teacher's checkpoint, is not given"):
        student.load_teacher()


def test_rows_of_another_length_than_the_models_are_refused(
    configured: Callable[..., DictConfig],
) -> None:
    config = configured(*ROUNDS, "data_preprocess.seq_len=9", tree="configs_rounds")
    with pytest.raises(SystemExit, match="seq_len=9 is not model.length"):
        start.sets(config)


def test_adam_with_weight_decay_is_refused(configured: Callable[..., DictConfig]) -> None:
    config = configured(*RDLM, "optim=adam", "optim.weight_decay=0.1", tree="configs_rdlm")
    with pytest.raises(SystemExit, match="optim=adamw has it"):
        build(named(config, "configs_rdlm"), VOCABULARY, torch.float32)

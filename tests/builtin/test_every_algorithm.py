"""What holds for each algorithm: it trains, goes on to the byte after a kill, and samples."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from algorithms import ALGORITHMS, build
from checkpoint import load, seed_all
from data import Rows
from loop import Trainer
from omegaconf import DictConfig, open_dict
from rdlm import common
from vocabulary import Vocabulary
from world import World

HERE = World(0, 1, torch.device("cpu"))
WORDS = Vocabulary(12, None, 0)
SHARED = (
    "loader.global_batch_size=4",
    "loader.batch_size=4",
    "trainer.max_steps=6",
    "trainer.log_every_n_steps=2",
    "trainer.val_check_interval=3",
    "callbacks.checkpoint_every_n_steps.every_n_train_steps=3",
    "lr_scheduler.num_warmup_steps=2",
    "model.length=8",
    "model.dropout=0.1",
    "optim.lr=0.01",
)
ROUNDS = (
    "+seed=1",
    "parameterization.grow_dt_every=2",
    "parameterization.orig_num_sampling_steps=64",
)
# Of each: the tree, its overrides, and the algorithm of its teacher.
CASES = {
    "mdlm": ("configs", (), None),
    "duo": ("configs", ("algo=duo", "algo.curriculum.start=0", "algo.curriculum.end=3"), None),
    "flm": ("configs", ("algo=flm",), None),
    "candi": ("configs", ("algo=candi",), None),
    "fmlm": ("configs", ("algo=fmlm", "algo.teacher_path={teacher}"), "algo=flm"),
    "distillation": (
        "configs",
        (
            "algo=distillation",
            "training.finetune_path={teacher}",
            "algo.update_teacher_every=2",
            "+algo.curriculum.gamma_min=-4",
            "+algo.curriculum.gamma_max=-1",
        ),
        "algo=duo",
    ),
    "sdtt": ("configs_rounds", ("parameterization.checkpoint_path={teacher}", *ROUNDS), "mask"),
    "di4c": (
        "configs_rounds",
        (
            "parameterization.checkpoint_path={teacher}",
            "is_di4c=true",
            "latent_bsize=3",
            "+dlb_student_init=teacher",
            *ROUNDS,
        ),
        "mask",
    ),
    "rdlm": ("configs_rdlm", (), None),
    "ar": ("configs", ("algo=ar",), None),
}
RDLM = (
    "accelerator=cpu",
    "model.length=8",
    "model.dropout=0.1",
    "training.batch_size=4",
    "training.n_iters=6",
    "training.snapshot_freq=3",
    "training.snapshot_freq_for_preemption=3",
    "training.log_freq=2",
    "training.eval_freq=3",
    "optim.warmup=2",
    "sde.preprocess_steps=50",
    "sde.preprocess_paths=256",
    "eval.simul_steps=5",
)


@pytest.fixture
def start(
    configured: Callable[..., DictConfig],
    written: Callable[[str, list[np.ndarray]], Path],
    teacher_of: Callable[..., str],
) -> Callable[[str, Path], Trainer]:
    """Make an algorithm's trainer for a folder, as a fresh process would."""
    rows = np.random.default_rng(0).integers(0, 12, (30, 8))
    sets = Rows(written("train", [rows[:20]]), 8), Rows(written("valid", [rows[20:]]), 8)

    def make(name: str, folder: Path) -> Trainer:
        folder.mkdir(exist_ok=True)
        tree, overrides, taught_by = CASES[name]
        teacher = ""
        if taught_by == "mask":  # an absorbing state after the tokenizer's
            teacher = teacher_of("algo=mdlm", Vocabulary(12, None, 0), "model.length=8")
        elif taught_by is not None:
            teacher = teacher_of(taught_by, WORDS, "model.length=8")
        filled = [override.format(teacher=teacher) for override in overrides]
        config = configured(*(RDLM if name == "rdlm" else SHARED), *filled, tree=tree)
        if name == "rdlm":
            config = common(config)
        with open_dict(config):
            config.algo = {"name": name, **config.get("algo", {})}
            config.checkpointing.save_dir = str(folder)
            config.checkpointing.resume_ckpt_path = str(folder / "checkpoints/last.ckpt")
        seed_all(7)
        return Trainer(config, build(config, WORDS, torch.float32), sets, HERE)

    return make


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it runs."""


def left(folder: Path) -> dict[str, bytes]:
    """Every file that training leaves for good."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "progress.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_every_algorithm_has_a_case() -> None:
    assert set(CASES) == set(ALGORITHMS)


@pytest.mark.parametrize("name", CASES)
def test_a_killed_run_ends_as_an_uninterrupted_one(
    start: Callable[[str, Path], Trainer], tmp_path: Path, name: str
) -> None:
    assert start(name, tmp_path / "whole").run() == 0
    broken = start(name, tmp_path / "broken")
    update = broken.update

    def dies() -> float:
        if broken.step == 5:
            raise Killed
        return update()

    broken.update = dies
    with pytest.raises(Killed):
        broken.run()
    resumed = start(name, tmp_path / "broken")
    seed_all(99)
    assert resumed.run() == 0
    assert left(tmp_path / "broken") == left(tmp_path / "whole")
    assert load(tmp_path / "whole/checkpoints/last.ckpt")["global_step"] == 6


@pytest.mark.parametrize("name", CASES)
def test_it_samples_rows_of_tokens(
    start: Callable[[str, Path], Trainer], tmp_path: Path, name: str
) -> None:
    algorithm = start(name, tmp_path / "run").algorithm.eval()
    torch.manual_seed(0)
    rows = algorithm.sample(5, 4)
    assert rows.shape == (5, 8)
    assert rows.dtype == torch.int64
    assert rows.min() >= 0
    assert rows.max() < 12
    torch.manual_seed(0)
    assert torch.equal(algorithm.sample(5, 4), rows)

"""Duo's mended trainers hand on each argument where it belongs, on a stand-in for its module."""

import importlib
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch


class Diffusion:
    """The parent's loss takes labels; what it was given is kept."""

    def nll(self, x0, labels, output_tokens, current_accumulation_step=None, train_mode=False):
        self.given = (x0, labels, output_tokens, current_accumulation_step, train_mode)
        return "true nll"


class DuoBase(Diffusion):
    def __init__(self, config, tokenizer):
        self.started_with_table = Path(config.algo.curriculum.integral_cache_path).exists()


class Duo(DuoBase):
    def nll(self, x0, output_tokens, current_accumulation_step=None, train_mode=False):
        self.given = (x0, output_tokens, current_accumulation_step, train_mode)
        return "curriculum"


class Distillation(Duo):
    def nll(self, x0, output_tokens, current_accumulation_step=None, train_mode=None):
        self.given = (x0, output_tokens, current_accumulation_step, train_mode)
        return "distilled"

    @classmethod
    def load_from_checkpoint(cls, path, **named):
        model = cls.__new__(cls)
        model.path, model.config = path, named["config"]
        model.ema = SimpleNamespace(decay=0.9999, shadow_params=["averaged"])
        model.fast_forward_epochs, model.fast_forward_batches = 3, 4
        return model

    def _teacher_logits(self, xt, sigma):
        return self.teacher(xt)


@pytest.fixture
def mended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Fresh classes in a module named as the upstream's, and the two adapters on them."""
    algo = ModuleType("algo")
    algo.__file__ = str(tmp_path / "algo.py")
    algo.copy = importlib.import_module("copy")
    algo.DUO_BASE = type("DUO_BASE", (DuoBase,), {})
    algo.DUO = type("DUO", (algo.DUO_BASE,), {"nll": Duo.nll})
    names = ("nll", "load_from_checkpoint", "_teacher_logits")
    algo.Distillation = type("D", (algo.DUO,), {n: vars(Distillation)[n] for n in names})
    monkeypatch.setitem(sys.modules, "algo", algo)
    for name in ("train_duo", "train_duo_dcd"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    duo = importlib.import_module("train_duo")
    dcd = importlib.import_module("train_duo_dcd")
    yield SimpleNamespace(algo=algo, duo=duo, dcd=dcd)
    for name in ("train_duo", "train_duo_dcd"):
        sys.modules.pop(name, None)


def model(kind: type, **fields: object) -> Any:
    made = kind.__new__(kind)
    vars(made).update(fields)
    return made


@pytest.mark.parametrize(
    ("step", "train_mode", "result", "given"),
    [
        (5, True, "curriculum", ("x", None, 3, True)),
        (10, True, "curriculum", ("x", None, 3, True)),  # its last step
        (11, True, "true nll", ("x", None, None, 3, True)),
        (5, False, "true nll", ("x", None, None, 3, False)),
    ],
)
def test_the_loss_gets_every_argument(
    mended: Any, step: int, train_mode: bool, result: str, given: tuple[object, ...]
) -> None:
    mended.duo.mend_nll()
    found = model(mended.algo.DUO, global_step=step, curriculum_end=10)
    assert found.nll("x", None, None, 3, train_mode) == result
    assert found.given == given


def test_the_distillation_takes_labels_and_has_none(mended: Any) -> None:
    mended.dcd.mend_nll()
    found = model(mended.algo.Distillation)
    assert found.nll("x", None, "out", 2, True) == "distilled"
    assert found.given == ("x", "out", 2, True)
    with pytest.raises(AssertionError):
        found.nll("x", torch.ones(1), "out", 2, True)


def test_of_a_teacher_the_weights_alone_are_taken(mended: Any) -> None:
    mended.dcd.mend_start()
    config = SimpleNamespace(training=SimpleNamespace(ema=0.999))
    found = mended.algo.Distillation.load_from_checkpoint("teacher.ckpt", config=config)
    assert (found.path, found.ema.decay) == ("teacher.ckpt", 0.999)
    assert found.ema.shadow_params == ["averaged"]
    assert found.fast_forward_epochs is found.fast_forward_batches is None


@pytest.mark.parametrize("copied", [False, True])
def test_a_teacher_never_drops_out(mended: Any, copied: bool) -> None:
    mended.dcd.mend_teacher()
    dropout = torch.nn.Dropout(0.5).train()
    found = model(mended.algo.Distillation, backbone=dropout, teacher=None)
    if copied:
        found.teacher = torch.nn.Dropout(0.5).train()
    x = torch.ones(64)
    assert torch.equal(found._teacher_logits(x, None), x)
    assert dropout.training
    assert found.teacher is not dropout


def test_the_table_is_there_before_a_model_starts(mended: Any, tmp_path: Path) -> None:
    mended.duo.mend_table()
    path = tmp_path / "work" / "table.pkl"
    curriculum = SimpleNamespace(integral_cache_path=str(path))
    config = SimpleNamespace(algo=Config(curriculum=curriculum))
    assert mended.algo.DUO(config, SimpleNamespace(vocab_size=7)).started_with_table
    assert pickle.loads(path.read_bytes())["vocab_size"] == 7


class Config(SimpleNamespace):
    def get(self, name: str) -> Any:
        return vars(self).get(name)


def test_the_upstreams_program_runs_as_the_main_one(mended: Any, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("if __name__ == '__main__':\n    ran = main.__code__\n")
    main = ModuleType("__main__")
    main.main = main_program
    mended.duo.run(main)
    assert main.ran is main_program.__code__


def main_program() -> None:
    """Stands for what the upstream defines."""

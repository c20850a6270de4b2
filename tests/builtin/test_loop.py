"""Training as a whole on a very small model: repeats, goes on, stops and learns."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from algorithms import build
from checkpoint import load, save, seed_all
from data import Rows
from loop import Trainer
from metrics import own_noise, unigram_perplexity, validation
from omegaconf import DictConfig
from vocabulary import Vocabulary
from world import World

HERE = World(0, 1, torch.device("cpu"))
WORDS = Vocabulary(12, None, None)
SMALL = (
    "model.length=8",
    "model.dropout=0.1",
    "loader.global_batch_size=4",
    "loader.batch_size=2",
    "trainer.accumulate_grad_batches=2",
    "trainer.max_steps=9",
    "trainer.log_every_n_steps=2",
    "trainer.val_check_interval=3",
    "callbacks.checkpoint_every_n_steps.every_n_train_steps=4",
    "lr_scheduler.num_warmup_steps=3",
    "optim.lr=0.01",
)


@pytest.fixture
def start(
    configured: Callable[..., DictConfig], written: Callable[[str, list[np.ndarray]], Path]
) -> Callable[..., Trainer]:
    """Make a trainer for a folder, as a fresh process would."""
    generator = np.random.default_rng(0)
    # Rows that count upwards from a random start: something to learn.
    rows = (generator.integers(0, 12, (40, 1)) + np.arange(8)) % 12
    sets = Rows(written("train", [rows[:30]]), 8), Rows(written("valid", [rows[30:]]), 8)

    def make(folder: Path, *overrides: str) -> Trainer:
        folder.mkdir(exist_ok=True)
        config = configured(*SMALL, f"checkpointing.save_dir={folder}", *overrides)
        seed_all(config.seed)
        algorithm = build(config, WORDS, torch.float32)
        return Trainer(config, algorithm, sets, HERE)

    return make


def outcome(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "checkpoints/last.ckpt").read_bytes(), (folder / "metrics.jsonl").read_bytes()


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it runs."""


@pytest.mark.parametrize("killed_in", ["update", "record", "validate", "save"])
@pytest.mark.parametrize("at", [2, 5, 8])
def test_a_run_killed_anywhere_ends_as_an_uninterrupted_one(
    start: Callable[..., Trainer], tmp_path: Path, killed_in: str, at: int
) -> None:
    assert start(tmp_path / "whole").run() == 0
    broken = start(tmp_path / "broken")
    whole = getattr(broken, killed_in)

    def dies() -> float:
        if broken.step >= at:
            raise Killed
        return whole()

    setattr(broken, killed_in, dies)
    with pytest.raises(Killed):
        broken.run()
    seed_all(77)
    assert start(tmp_path / "broken").run() == 0
    assert outcome(tmp_path / "broken") == outcome(tmp_path / "whole")


def test_a_signal_finishes_the_update_saves_and_tells(
    start: Callable[..., Trainer], tmp_path: Path
) -> None:
    assert start(tmp_path / "whole").run() == 0
    stopped = start(tmp_path / "stopped")
    whole = stopped.update

    def interrupted() -> float:
        if stopped.step == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return whole()

    stopped.update = interrupted
    assert stopped.run() == 128 + signal.SIGTERM
    assert load(tmp_path / "stopped/checkpoints/last.ckpt")["global_step"] == 5
    assert start(tmp_path / "stopped").run() == 0
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")
    assert start(tmp_path / "stopped").run() == 0  # nothing is left to do
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_every_part_of_a_batch_has_times_from_all_over(
    start: Callable[..., Trainer], tmp_path: Path, parts: int
) -> None:
    size = 8 // parts
    split = (f"loader.batch_size={size}", f"trainer.accumulate_grad_batches={parts}")
    trainer = start(tmp_path / "run", "loader.global_batch_size=8", *split, "trainer.max_steps=2")
    seen: list[torch.Tensor] = []
    forward = trainer.algorithm.forward

    def watched(tokens: torch.Tensor, uniform: torch.Tensor, step: int) -> torch.Tensor:
        seen.append(uniform)
        return forward(tokens, uniform, step)

    trainer.algorithm.forward = watched
    trainer.run()
    for times in seen:  # one in each stratum of the part
        assert (times * size).long().tolist() == list(range(size))
    for update in range(2):  # and one in each of the whole batch
        times = torch.cat(seen[update * parts : (update + 1) * parts])
        assert sorted((times * 8).long().tolist()) == list(range(8))


def test_the_seed_decides(start: Callable[..., Trainer], tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        start(tmp_path / name, f"seed={seed}", "trainer.max_steps=2").run()
    assert outcome(tmp_path / "one") == outcome(tmp_path / "again")
    assert outcome(tmp_path / "one")[0] != outcome(tmp_path / "two")[0]


def test_it_learns_and_records_what_it_did(start: Callable[..., Trainer], tmp_path: Path) -> None:
    trainer = start(tmp_path / "run", "trainer.max_steps=150", "training.ema=0.9")
    trainer.run()
    records = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    valid = [record for record in records if "validation_nll" in record]
    assert valid[0]["step"] == 0
    assert valid[-1]["step"] == 150
    assert valid[-1]["validation_perplexity"] < 0.6 * valid[-1]["unigram_perplexity"]
    rates = {record["step"]: record["lr"] for record in records if "lr" in record}
    assert rates[2] == pytest.approx(0.01 / 3)  # the second update's, of a warm-up of three
    assert rates[150] == 0.01
    content = load(tmp_path / "run/checkpoints/last.ckpt")
    names = {f"backbone.{name}" for name in trainer.algorithm.backbone.state_dict()}
    assert set(content["state_dict"]) == names
    assert len(content["ema"]["shadow_params"]) == len(names) - 1  # all but the rotary buffer
    assert content["order"]["epoch"] * 7 + content["order"]["batch"] == 150


def test_a_loss_that_is_not_finite_stops_the_run(
    start: Callable[..., Trainer], tmp_path: Path
) -> None:
    trainer = start(tmp_path / "run")
    with torch.no_grad():
        trainer.algorithm.backbone.output_layer.linear.bias += float("nan")
    with pytest.raises(SystemExit, match="not finite"):
        trainer.run()


def test_validation_is_repeatable_and_leaves_the_training_noise(
    start: Callable[..., Trainer], tmp_path: Path
) -> None:
    trainer = start(tmp_path / "run")
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    results = {validation(trainer.algorithm, trainer.held_out, 3, None, HERE) for _ in "ab"}
    assert len(results) == 1
    assert torch.equal(torch.rand(4), wanted)
    assert trainer.algorithm.training
    with own_noise(0):
        torch.rand(1)
    part = validation(trainer.algorithm, trainer.held_out, 3, 1, HERE)
    assert part not in results


def test_unigram_perplexity_is_that_of_counted_frequencies(
    written: Callable[[str, list[np.ndarray]], Path],
) -> None:
    train = Rows(written("train", [np.array([[0, 0], [0, 1]])]), 2)
    held_out = Rows(written("valid", [np.array([[0, 1], [2, 0]])]), 2)
    # Counts with one added: 4, 2, 1 of 7.
    wanted = ((7 / 4) ** 2 * (7 / 2) * 7) ** (1 / 4)
    assert unigram_perplexity(train, held_out, 3) == pytest.approx(wanted)


def test_an_evaluation_measures_what_training_measured_last(
    start: Callable[..., Trainer], tmp_path: Path
) -> None:
    assert start(tmp_path / "trained").run() == 0
    rows = [json.loads(r) for r in (tmp_path / "trained/metrics.jsonl").read_text().splitlines()]
    trained = [row for row in rows if "validation_nll" in row][-1]
    # Of a checkpoint, whatever batch, seed and number of processes it was trained with.
    other = ("loader.global_batch_size=2", "trainer.accumulate_grad_batches=1", "seed=7")
    path = tmp_path / "trained/checkpoints/last.ckpt"
    content = load(path)
    save(path, {**content, "random_states": content["random_states"] * 8})
    evaluated = start(tmp_path / "evaluated", *other)
    assert evaluated.evaluate(path) == 0
    (found,) = (tmp_path / "evaluated/metrics.jsonl").read_text().splitlines()
    assert json.loads(found) == trained

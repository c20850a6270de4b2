"""Training: the gradient's normalisation, exact resumption, students, files, failures."""

import json
import os
import signal
import subprocess
import sys

import ensemble_runs
import ensemble_stops
import numpy as np
import pytest
import torch
from ensemble import start, state
from ensemble.settings import Refusal, flat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world import World

HERE = World(0, 1, torch.device("cpu"))


@pytest.fixture
def taught(root):
    """A root with the four teachers' runs."""
    for member in ("v42", "s1", "s2", "s3"):
        assert start.run(ensemble_runs.settings(root, member, member=member)) == 0
    return root


def gradient(trainer, batch) -> list[torch.Tensor]:
    """The gradient that the update over a batch of the first epoch follows, unclipped."""
    seen = []
    trainer.optimizer.step = lambda: seen.extend(
        p.grad.double().clone() for p in trainer.model.parameters()
    )
    trainer.settings = ensemble_runs.changed(trainer.settings, "optim.clip", 1e6)
    trainer.committed.batch = batch
    trainer.update()
    return seen


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(micro=st.integers(1, 7), share=st.floats(0, 1))
def test_any_split_into_microbatches_gives_the_same_gradient(taught, micro, share) -> None:
    found = []
    for size in (8, micro):
        config = ensemble_runs.student(taught, "x", "mix-s1", batch__microbatch=size)
        trainer = start.prepared(config, HERE)
        found.append(gradient(trainer, round(share * (trainer.plan.updates[0] - 1))))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def test_a_student_learns_from_four_teachers_and_says_so(taught) -> None:
    config = ensemble_runs.student(taught, "geo", "geo-s2")
    assert start.run(config) == 0
    folder = taught / "geo"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "smoke_complete"
    assert set(summary["checkpoints"]) == {"last", "best-lm", "epoch-1", "epoch-2"}
    assert summary["peak_memory_bytes"] > 1 << 20
    assert json.loads((folder / "progress.json").read_text())["status"] == "smoke_complete"
    assert json.loads((folder / "config.json").read_text()) == config
    assert not (folder / "failure.json").exists()
    assert any((folder / "tensorboard").glob("events.out.tfevents.*"))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [row for row in rows if "loss" in row]
    assert losses[-1]["loss"] < losses[0]["loss"]
    for row in losses:
        halves = (row["cross_entropy"] + row["teacher_cross_entropy"]) / 2
        assert row["loss"] == pytest.approx(halves, rel=1e-5)
    measured = [row for row in rows if "chat_loss" in row]
    assert [row["step"] for row in measured] == [one["step"] for one in summary["epochs"]]


def test_bits_per_character_are_of_all_targets_over_the_texts_characters(root) -> None:
    trainer = start.prepared(ensemble_runs.settings(root, "x"), HERE)
    before = torch.get_rng_state()
    assert start.run(trainer.settings) == 0
    found = json.loads((root / "x" / "summary.json").read_text())["epochs"][-1]
    stored = np.fromfile(root / "stores/chat_validation/sentences.u32", "<u4").reshape(-1, 3)
    nll = found["chat_loss"] * stored[:, 0].sum()
    wanted = nll / (stored[:, 1].sum() * np.log(2))
    assert found["chat_bits_per_character"] == pytest.approx(wanted, rel=1e-9)
    assert found["chat_perplexity"] == pytest.approx(np.exp(found["chat_loss"]))
    assert before.shape == torch.get_rng_state().shape


def test_stopped_after_every_update_it_ends_with_the_same_bytes(root) -> None:
    config = ensemble_runs.settings(root, "x")
    assert start.run(config) == 0
    wanted = ensemble_runs.results(root / "x")
    (root / "x").rename(root / "done")
    statuses, trainer = [], None
    while not statuses or statuses[-1]:
        trainer = start.prepared(config, HERE)
        trainer._stop((signal.SIGTERM, signal.SIGINT)[len(statuses) % 2], None)
        statuses.append(trainer.run())
        if statuses[-1]:
            told = json.loads((root / "x" / "progress.json").read_text())
            assert told["status"] == "interrupted"
    assert set(statuses[:-1]) == {130, 143}
    assert len(statuses) > 20
    assert ensemble_runs.results(root / "x") == wanted


def test_the_cap_of_a_smoke_run_within_an_epoch(root) -> None:
    config = ensemble_runs.settings(root, "x", smoke_updates=7)
    assert start.run(config) == 0
    summary = json.loads((root / "x" / "summary.json").read_text())
    assert (summary["step"], summary["final"]["step"], summary["epochs"]) == (7, 7, [])
    wanted = ensemble_runs.results(root / "x")
    assert start.run(config) == 0  # once more changes nothing
    assert ensemble_runs.results(root / "x") == wanted


@pytest.mark.e2e
def test_killed_at_random_instants_it_ends_with_the_same_bytes(tmp_path) -> None:
    assert len(ensemble_stops.stops(tmp_path, 3, seed=5)) == 3


@pytest.mark.e2e
def test_any_number_of_processes_has_the_same_cursor(taught) -> None:
    shape = {"batch__microbatch": 2, "launch__accumulation": 4}
    whole = ensemble_runs.student(taught, "one", "geo-v42", **shape)
    assert start.run(whole) == 0
    # Stopped by one process, gone on with by two.
    config = ensemble_runs.student(taught, "two", "geo-v42", **shape)
    trainer = start.prepared(config, HERE)
    trainer._stop(signal.SIGTERM, None)
    assert trainer.run() == 143
    config["launch"] |= {"devices": 2, "accumulation": 2}
    values = flat(config).items()
    words = [f"{name}={json.dumps(value)}" for name, value in values]
    main = ensemble_stops.BUILTIN / "ensemble" / "main.py"
    done = subprocess.run(
        [sys.executable, "-B", str(main), f"hydra.run.dir={taught}/hydra", *words],
        env={**os.environ, "PYTHONPATH": str(ensemble_stops.BUILTIN), "OMP_NUM_THREADS": "1"},
        cwd=taught,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    one, two = (state.load(taught / n / "checkpoints" / "last.ckpt") for n in ("one", "two"))
    for name in ("global_step", "epoch", "cursor", "totals", "plan", "metrics_rows"):
        assert one[name] == two[name]
    for name, weight in one["state_dict"].items():
        torch.testing.assert_close(weight, two["state_dict"][name], rtol=0.02, atol=0.02)


def test_a_failure_leaves_its_record_and_a_safe_checkpoint(root, monkeypatch) -> None:
    config = ensemble_runs.settings(root, "x")
    trainer = start.prepared(config, HERE)
    right = trainer.update

    def update():
        if trainer.committed.step == 6:
            raise ValueError("a bad day")
        return right()

    trainer.update = update
    monkeypatch.setattr(start, "prepared", lambda *_: trainer)
    with pytest.raises(ValueError, match="a bad day"):
        start.train(config, HERE)
    last = root / "x" / "checkpoints" / "last.ckpt"
    assert json.loads((root / "x" / "failure.json").read_text()) == {
        "type": "ValueError",
        "message": "a bad day",
        "last_committed_step": 6,
        "safe_checkpoint": str(last),
    }
    assert state.load(last)["global_step"] == 4


def test_teachers_are_refused_by_name(taught, capsys) -> None:
    config = ensemble_runs.student(taught, "x", "geo-s1")
    teachers = config["distillation"]["teachers"]
    cases = [
        ("distillation.teachers.s2.sha256", "0" * 64, "teacher s2: .*pinned is 0000"),
        ("distillation.teachers.s2.step", 1, "teacher s2: .* holds step .*, pinned is 1"),
        (
            "distillation.teachers.s2.file",
            teachers["s3"]["file"],
            "is lm of s3, should be lm of s2",
        ),
        ("optim.lr", 0.5, "twin s1: .*optim.lr is 0.5, its twin's 0.01; they must be equal"),
        ("seed", 7, "twin s1: .*seed is 7, its twin's 1"),
        ("optim.warmup", 900, "optim.warmup=900: the plan has"),
    ]
    for name, value, said in cases:
        changed = ensemble_runs.changed(config, name, value)
        changed["output"] = str(taught / name)
        with pytest.raises(Refusal, match=said):
            start.prepared(changed, HERE)
    changed = ensemble_runs.changed(config, "optim.lr", 0.5)
    assert start.run({**changed, "output": str(taught / "y")}) == 2
    assert capsys.readouterr().err.count("\n") == 1

"""Checkpoints: what is damaged, of another run, or contradicts itself is refused by name."""

import copy
import random

import checkpoint
import ensemble_runs
import pytest
import torch
from ensemble import start, state
from ensemble.settings import Refusal
from world import World

HERE = World(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A stopped run, in its second epoch: its settings and its last checkpoint."""
    root = tmp_path_factory.mktemp("state")
    ensemble_runs.write_stores(root / "stores")
    config = ensemble_runs.settings(root, "run")
    trainer = start.prepared(config, HERE)
    trainer._stop(15, None)  # before each update, as a signal would
    while trainer.run() and (trainer.committed.epoch, trainer.committed.batch) != (1, 2):
        trainer = start.prepared(config, HERE)
        trainer._stop(15, None)
    return config, trainer.last


def refused(config, path) -> str:
    trainer = start.prepared(config, HERE)
    with pytest.raises(Refusal) as error:
        trainer.load(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{path}: ")


def put(content, path, value) -> None:
    *above, last = path
    for part in above:
        content = content[part]
    content[last] = value(content[last]) if callable(value) else value


def later(number):
    return number + 1


ALTERED = {
    ("global_step",): (later, "global_step"),
    ("epoch",): (later, "cursor: epoch"),
    ("cursor", "epoch"): (later, "cursor: epoch"),
    ("cursor", "batch"): (later, "cursor: offset"),
    ("cursor", "offset"): (later, "cursor: offset"),
    ("totals", "examples"): (later, "totals: examples"),
    ("totals", "tokens"): (later, "totals: tokens"),
    ("totals", "windows", "chat"): (later, "totals: windows"),
    ("epochs",): ([], "epochs: how many"),
    ("epochs", 0, "epoch"): (later, "epochs: 1: epoch"),
    ("epochs", 0, "step"): (later, "epochs: 1: step"),
    ("epochs", 0, "chat_loss"): (float("nan"), "epochs: 1: chat_loss"),
    ("best",): (None, "best"),
    ("final",): ({"step": 3}, "final: step"),
    ("metrics_rows",): (-1, "metrics_rows"),
    ("plan", "sha256"): ("0" * 64, "plan: sha256"),
    ("plan", "updates", 0): (later, "plan: updates"),
    ("config", "optim", "lr"): (0.5, "config: optim.lr"),
    ("config_sha256",): ("0" * 64, "config_sha256"),
    ("optimizer_states", 0, "state", 0, "step"): (
        lambda t: t + 1,
        "optimizer: step of parameter 0",
    ),
    ("optimizer_states", 0, "param_groups", 0, "params"): ([], "optimizer: parameters"),
    ("optimizer_states", 0, "state", 1, "exp_avg"): (
        lambda t: t * float("inf"),
        "optimizer: exp_avg",
    ),
    ("state_dict", "norm.weight"): (lambda t: t[:-1], "state_dict: norm.weight: shape"),
    ("state_dict", "embedding.weight"): (
        lambda t: t * float("nan"),
        "state_dict: embedding.weight",
    ),
    ("random_state",): ({}, "random_state: python: is missing"),
    ("totals",): (None, "makes no sense"),
}


@pytest.mark.parametrize("where", ALTERED, ids=lambda where: ".".join(map(str, where)))
def test_each_altered_redundancy_is_refused_by_name(run, tmp_path, where) -> None:
    config, last = run
    content = copy.deepcopy(state.load(last))
    value, said = ALTERED[where]
    put(content, where, value)
    path = tmp_path / "altered.ckpt"
    checkpoint.save(path, state.seal(content))
    assert refused(config, path).startswith(said)
    checkpoint.save(path, {**content, "digest": torch.load(last)["digest"]})
    assert refused(config, path).startswith("digest: is not that of its content")


def test_a_missing_tensor_is_refused(run, tmp_path) -> None:
    config, last = run
    content = state.load(last)
    del content["state_dict"]["norm.weight"]
    checkpoint.save(tmp_path / "x.ckpt", state.seal(content))
    assert refused(config, tmp_path / "x.ckpt").startswith("state_dict: names")


def test_a_flipped_byte_is_refused_or_changes_nothing(run, tmp_path) -> None:
    _, last = run
    whole, digest = last.read_bytes(), state.digest(state.load(last))
    path, chance, caught = tmp_path / "x.ckpt", random.Random(3), 0
    for _ in range(60):
        at = chance.randrange(len(whole))
        path.write_bytes(
            whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
        )
        try:
            assert state.digest(state.load(path)) == digest  # padding, a name in the archive
        except Refusal as error:
            assert str(error).startswith(f"{path}: ")
            caught += 1
    assert caught > 10


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02}q\x00."])
def test_what_is_no_checkpoint_is_refused(run, tmp_path, content) -> None:
    path = tmp_path / "x.ckpt"
    path.write_bytes(content)
    assert refused(run[0], path).startswith("no ")
    torch.save({"format": "other", "digest": ""}, path)
    assert refused(run[0], path).startswith("no checkpoint of this trainer")


def test_another_runs_checkpoint_is_refused(run) -> None:
    config, last = run
    for name, value in (("seed", 2), ("model.hidden", 32), ("optim.lr", 0.02)):
        other = ensemble_runs.changed(config, name, value)
        other["output"] += f"-{name}"
        assert refused(other, last).startswith(f"config: {name}: is ")


def test_lost_metrics_are_refused(run) -> None:
    config, last = run
    metrics = last.parents[1] / "metrics.jsonl"
    whole = metrics.read_bytes()
    metrics.write_bytes(whole.split(b"\n")[0] + b"\n")
    with pytest.raises(Refusal, match="has 1 rows, the checkpoint's metrics_rows is"):
        start.prepared(config, HERE).run()
    metrics.write_bytes(whole)

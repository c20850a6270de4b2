"""Checkpoints: equal content is equal bytes, a file is whole or the old one, noise goes on."""

import os
import random
from pathlib import Path

import checkpoint
import numpy as np
import pytest
import torch


def content() -> dict[str, object]:
    """A value of every kind a checkpoint holds."""
    name = "".join(["ex", "p_avg"])  # not the same object as another of its spelling
    return {
        "state_dict": {"a": torch.arange(4.0)},
        "optimizer_states": [{"state": {0: {name: torch.ones(2)}}, "betas": (0.9, 0.999)}],
        "exp_avg": [1, 2.5, None, "exp_avg"],
    }


def test_what_was_read_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first" / "last.ckpt", tmp_path / "second" / "last.ckpt"
    checkpoint.save(first, content())
    checkpoint.save(second, checkpoint.load(first))
    assert first.read_bytes() == second.read_bytes()


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "last.ckpt"
    checkpoint.save(path, {"global_step": 1})

    def full(fd: int) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        checkpoint.save(path, {"global_step": 2})
    assert checkpoint.load(path) == {"global_step": 1}


def test_a_truncated_file_ends_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    checkpoint.save(path, content())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SystemExit, match="no readable checkpoint"):
        checkpoint.load(path)


def test_every_generator_goes_on(tmp_path: Path) -> None:
    def draw() -> tuple[float, float, float]:
        return random.gauss(0, 1), float(np.random.standard_normal()), torch.rand(1).item()

    checkpoint.seed_all(5)
    draw()  # gauss and standard_normal keep a second value back
    path = tmp_path / "state"
    checkpoint.save(path, checkpoint.random_state())
    wanted = draw(), draw()
    checkpoint.seed_all(6)
    checkpoint.set_random_state(checkpoint.load(path))
    assert (draw(), draw()) == wanted

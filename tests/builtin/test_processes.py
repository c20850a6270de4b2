"""Several processes that train together, through torchrun, on one machine's CPU."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

MAIN = Path(__file__).parents[2] / "builtin" / "main.py"


@pytest.mark.e2e
def test_two_processes_repeat_and_share_a_global_batch(
    written: Callable[[str, list[np.ndarray]], Path], tmp_path: Path
) -> None:
    rows = np.random.default_rng(0).integers(4, 12, (40, 8))
    written("lm1b_train_bs8_wrapped.dat", [rows[:30]])
    written("lm1b_test_bs8_wrapped.dat", [rows[30:]])
    words = {"[PAD]": 0, "[MASK]": 3} | {f"w{number}": number for number in range(4, 12)}
    document = {"model": {"vocab": words}, "added_tokens": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))

    def run(name: str, devices: int) -> tuple[bytes, bytes]:
        folder = tmp_path / name
        folder.mkdir()
        overrides = {
            "data.cache_dir": tmp_path,
            "data.tokenizer_name_or_path": tmp_path,
            "model": "tiny",
            "model.length": 8,
            "model.n_blocks": 1,
            "loader.global_batch_size": 8,
            "loader.batch_size": 2,
            "trainer.devices": devices,
            "trainer.accumulate_grad_batches": 4 // devices,
            "trainer.accelerator": "cpu",
            "trainer.threads": 1,
            "trainer.precision": 32,
            "trainer.max_steps": 4,
            "trainer.log_every_n_steps": 2,
            "lr_scheduler.num_warmup_steps": 0,
            "optim.lr": 0.01,
            "checkpointing.save_dir": folder,
            "hydra.run.dir": folder,
        }
        command = [sys.executable, str(MAIN), *(f"{k}={v}" for k, v in overrides.items())]
        variables = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env=variables, cwd=folder, timeout=300)
        return (folder / "checkpoints/last.ckpt").read_bytes(), (
            folder / "metrics.jsonl"
        ).read_bytes()

    first, again, alone = run("first", 2), run("again", 2), run("alone", 1)
    assert first == again
    losses = [
        [json.loads(line).get("loss") for line in metrics.splitlines()]
        for _, metrics in (first, alone)
    ]
    # The same rows and times, other masks: alike, not equal.
    assert losses[0] != losses[1]
    for one, other in zip(*losses, strict=True):
        assert (one is None) == (other is None)
        assert one is None or abs(one - other) < 1.0

"""Several processes that train together, through torchrun, on one machine's CPU."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

MAIN = Path(__file__).parents[2] / "builtin" / "main.py"
VARIABLES = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
pytestmark = pytest.mark.e2e  # each starts torch several times


@pytest.fixture
def data(written: Callable[[str, list[np.ndarray]], Path], tmp_path: Path) -> Path:
    """Rows of eight tokens, and a tokenizer that has them."""
    rows = np.random.default_rng(0).integers(4, 12, (40, 8))
    written("lm1b_train_bs8_wrapped.dat", [rows[:30]])
    written("lm1b_test_bs8_wrapped.dat", [rows[30:]])
    words = {"[PAD]": 0, "[MASK]": 3} | {f"w{number}": number for number in range(4, 12)}
    document = {"model": {"vocab": words}, "added_tokens": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    return tmp_path


def command(data: Path, folder: Path, devices: int, **changed: object) -> list[str]:
    """What trains a very small model in `folder`."""
    folder.mkdir(exist_ok=True)
    overrides = {
        "data.cache_dir": data,
        "data.tokenizer_name_or_path": data,
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
    overrides |= {name.replace("__", "."): value for name, value in changed.items()}
    return [sys.executable, str(MAIN), *(f"{k}={v}" for k, v in overrides.items())]


def outcome(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "checkpoints/last.ckpt").read_bytes(), (folder / "metrics.jsonl").read_bytes()


def test_two_processes_repeat_and_share_a_global_batch(data: Path) -> None:
    def run(name: str, devices: int) -> tuple[bytes, bytes]:
        argv = command(data, data / name, devices)
        subprocess.run(argv, check=True, env=VARIABLES, cwd=data / name, timeout=300)
        return outcome(data / name)

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


@pytest.mark.parametrize("to", ["the program", "its group"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_has_all_processes_save_and_is_the_status(
    data: Path, number: signal.Signals, to: str
) -> None:
    """SIGINT of a terminal comes to each process, and once more from the first."""
    folder = data / "run"
    argv = command(data, folder, 2, trainer__max_steps=100_000)
    process = subprocess.Popen(
        argv, env=VARIABLES, cwd=folder, stderr=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + 200
    while not (folder / "progress.json").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    (os.kill if to == "the program" else os.killpg)(process.pid, number)
    _, said = process.communicate(timeout=200)
    assert process.returncode == 128 + number, said
    assert b"Traceback" not in said
    assert (folder / "checkpoints/last.ckpt").exists()


def test_processes_that_fail_end_with_their_status_and_their_line(data: Path) -> None:
    folder = data / "run"
    argv = command(data, folder, 2, data__cache_dir=folder)
    done = subprocess.run(
        argv, env=VARIABLES, cwd=folder, timeout=300, check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no prepared data set" in done.stderr
    assert "Traceback" not in done.stderr

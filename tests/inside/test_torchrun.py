"""The status of a trainer started by torchrun is the trainer's own."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.e2e  # each starts torch twice

PROGRAM = Path(__file__).parents[2] / "harness/inside/torchrun.py"
TRAINER = """
import os, signal, sys, time
from pathlib import Path

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
Path(sys.argv[1], os.environ["RANK"]).write_text("")
{do}
"""


def start(folder: Path, do: str, nodes: int = 1, rank: int = 0, port: int = 0) -> list[str]:
    program = folder / "trainer.py"
    program.write_text(TRAINER.format(do=do))
    where = ["--master-addr=127.0.0.1", f"--master-port={port or free_port()}"]
    size = [f"--nnodes={nodes}", f"--node-rank={rank}", "--nproc-per-node=2", "--max-restarts=0"]
    return [sys.executable, str(PROGRAM), *size, *where, str(program), str(folder)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("do", "status"),
    [
        ("sys.exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
    ],
)
def test_the_status_is_the_trainers(tmp_path: Path, do: str, status: int) -> None:
    done = subprocess.run(start(tmp_path, do), capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr


def test_a_signal_reaches_every_process(tmp_path: Path) -> None:
    process = subprocess.Popen(start(tmp_path, "time.sleep(600)"), stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not all((tmp_path / rank).exists() for rank in "01"):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 143, said
    assert b"Traceback" not in said

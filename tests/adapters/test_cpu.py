"""The stand-in for GPUs counts what it is told to, and starts gloo for nccl."""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "adapters" / "cpu"
PROGRAM = """
import torch, torch.distributed as dist
print(torch.cuda.device_count(), torch.cuda.is_available())
dist.init_process_group("nccl", init_method="file://" + {file!r}, rank=0, world_size=1)
print(dist.get_backend())
"""


def test_two_devices_and_gloo(tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(FOLDER), "HARNESS_CPU_DEVICES": "2"}
    program = PROGRAM.format(file=str(tmp_path / "meeting"))
    command = [sys.executable, "-B", "-c", program]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["2 False", "gloo"]

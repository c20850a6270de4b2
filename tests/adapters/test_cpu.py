"""The stand-in for GPUs counts what it is told to, starts gloo for nccl, and copies on CPUs."""

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
torch.cuda.set_device(1)
model = torch.nn.Linear(2, 1)
assert torch.compile(model) is model
copies = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0], static_graph=True)
copies(torch.ones(1, 2)).sum().backward()
print(model.weight.grad.tolist())
"""


def test_two_devices_and_gloo(tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(FOLDER), "HARNESS_CPU_DEVICES": "2"}
    program = PROGRAM.format(file=str(tmp_path / "meeting"))
    command = [sys.executable, "-B", "-c", program]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["2 False", "gloo", "[[1.0, 1.0]]"]

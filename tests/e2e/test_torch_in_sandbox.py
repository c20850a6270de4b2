"""PyTorch's own ways of using the machine work inside the sandbox."""

from pathlib import Path

import pytest
from sandbox_base import inside

from harness import nix, places
from harness.nix import Environment
from harness.project import Project
from harness.sandbox import Box, Mount

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PROGRAM = """
import json
import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing
from torch.utils.data import DataLoader, TensorDataset

def add(rank, queue):
    distributed.init_process_group("gloo", "tcp://127.0.0.1:29500", rank=rank, world_size=2)
    total = torch.full((4,), float(rank + 1))
    distributed.all_reduce(total)
    queue.put(total.tolist())
    distributed.destroy_process_group()

if __name__ == "__main__":
    numbers = TensorDataset(torch.arange(100))
    sums = []
    for method in ("fork", "spawn"):
        loader = DataLoader(numbers, 10, num_workers=2, multiprocessing_context=method)
        sums.append(sum(int(batch.sum()) for (batch,) in loader))
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    multiprocessing.spawn(add, (queue,), nprocs=2)
    print(json.dumps([sums, queue.get(), queue.get()]))
"""


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The environment of the smoke profile, built if it is not there."""
    source = Path(nix.__file__).parents[1]
    return nix.realise(Project(source=source, root=tmp_path_factory.mktemp("root")), "smoke")


def test_loader_workers_and_gloo(smoke: Environment, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(PROGRAM)
    mounts = (Mount(smoke.path, places.ENVIRONMENT), Mount(tmp_path, places.SOURCE))
    box = Box(smoke.base.path, smoke.closure, mounts, {"OMP_NUM_THREADS": "1"}, "/")
    code = f"""
    import subprocess
    command = ["{places.PYTHON}", "{places.SOURCE}/main.py"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    """
    assert inside(box, code) == [[4950, 4950], [3.0] * 4, [3.0] * 4]

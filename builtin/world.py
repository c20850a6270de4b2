"""The processes that train together: one a device, started by torchrun or by this program."""

import logging
import os
import sys
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class World:
    """This process's place among all, and the device it computes on."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def total(self, *values: float) -> list[float]:
        """Each value summed over all processes, in float64."""
        if self.size == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return sums.tolist()

    def gathered(self, value: object) -> list[object]:
        """Every process's value, in the order of ranks."""
        if self.size == 1:
            return [value]
        found: list[object] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def rows(self, tokens: Tensor) -> Tensor:
        """On this process's device."""
        return tokens.to(self.device, non_blocking=True)


def enter(accelerator: str, devices: int, nodes: int) -> World:
    """Join the other processes, where more than one device is asked for.

    On one node this program starts them itself, by torchrun, which runs it again in each, and ends
    as they do. Across nodes it must already run under torchrun, which sets the variables read here.
    """
    wanted = devices * nodes
    if wanted == 1:
        return World(0, 1, _device(accelerator, 0))
    if "RANK" not in os.environ:
        if nodes > 1:
            sys.exit(f"{nodes} nodes: start this program by torchrun on each")
        sys.exit(_all(devices))
    size, rank, local = (int(os.environ[n]) for n in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))
    if size != wanted:
        sys.exit(f"{size} processes were started, the configuration says {wanted}")
    device = _device(accelerator, local)
    dist.init_process_group("nccl" if accelerator == "cuda" else "gloo")
    return World(rank, size, device)


def _all(devices: int) -> int:
    """Run this program again in so many processes; their status, 128 + n where signal n came.

    torchrun itself would end with 1 in either case. Nor do they get only its 30 seconds to save.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main

    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "3600")
    logging.disable(logging.ERROR)  # what failed has said why itself
    try:
        main(["--standalone", f"--nproc-per-node={devices}", *sys.argv])
    except SignalException as error:
        return 128 + int(error.sigval)
    except ChildFailedError as error:
        code = int(error.get_first_failure()[1].exitcode)
        return code if code >= 0 else 128 - code
    return 0


def leave(world: World) -> None:
    """Part from the other processes."""
    if world.size > 1:
        dist.destroy_process_group()


def _device(accelerator: str, local: int) -> torch.device:
    if accelerator == "cpu":
        return torch.device("cpu")
    if accelerator != "cuda":
        sys.exit(f"trainer.accelerator={accelerator}: cpu or cuda")
    if not torch.cuda.is_available():
        sys.exit("trainer.accelerator=cuda: no CUDA device is visible")
    torch.cuda.set_device(local)
    return torch.device("cuda", local)

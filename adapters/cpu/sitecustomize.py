"""An upstream that is written for GPUs, on a CPU. Python imports this at each start.

The upstreams size their batches by the visible GPUs and ask for nccl; here HARNESS_CPU_DEVICES
processes stand for GPUs, and gloo for nccl. Only a profile that says so mounts this.
"""

import functools
import os

import torch
import torch.distributed

torch.cuda.device_count = lambda: int(os.environ["HARNESS_CPU_DEVICES"])
torch.cuda.is_available = lambda: False  # it may go by the count

_start = torch.distributed.init_process_group


@functools.wraps(_start)
def _started_by_gloo(backend: str | None = None, *arguments: object, **named: object) -> None:
    return _start("gloo" if backend == "nccl" else backend, *arguments, **named)


torch.distributed.init_process_group = _started_by_gloo

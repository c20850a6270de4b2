"""An upstream that is written for GPUs, on a CPU. Python imports this at each start.

The upstreams size their batches by the visible GPUs and ask for nccl; here HARNESS_CPU_DEVICES
processes stand for GPUs, and gloo for nccl. RDLM also chooses a GPU by number, for itself and for
its copies, and compiles its model, for which there is no compiler here. Only a profile that says
so mounts this.
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

torch.cuda.set_device = lambda _: None
torch.compile = lambda model, **_: model

_copies = torch.nn.parallel.DistributedDataParallel.__init__


@functools.wraps(_copies)
def _copies_on_cpus(
    self: object, module: object, device_ids: object = None, **named: object
) -> None:
    _copies(self, module, **named)


torch.nn.parallel.DistributedDataParallel.__init__ = _copies_on_cpus

"""What a run leaves for readers, each file published whole."""

import hashlib
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import torch


def publish(path: Path, data: bytes) -> None:
    """Write aside, flush to disk, rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.part")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def publish_json(path: Path, value: object) -> None:
    """Publish a JSON document."""
    publish(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode())


def sha256_file(path: Path) -> str:
    """A file's digest."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def peak_memory() -> int:
    """The most bytes this process has held: of the GPU's memory, on a CPU of the machine's."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Progress:
    """`progress.json`: status, step, speed; replaced at most every so many seconds."""

    def __init__(self, path: Path, steps: int, step: int, every: float) -> None:
        self.path, self.steps, self.every = path, steps, every
        self.first, self.start, self.shown = step, time.monotonic(), float("-inf")
        self.tokens = 0

    def show(self, status: str, step: int, loss: float | None, tokens: int = 0) -> None:
        """Say where training is; `tokens` are those learnt from since the last call."""
        self.tokens += tokens
        now = time.monotonic()
        if status == "running" and now - self.shown < self.every:
            return
        self.shown = now
        passed = max(now - self.start, 1e-9)
        speed = (step - self.first) / passed
        record: dict[str, Any] = {
            "status": status,
            "step": step,
            "max_steps": self.steps,
            "loss": loss,
            "tokens_per_second": round(self.tokens / passed, 1),
            "seconds_left": round((self.steps - step) / speed, 1) if speed else None,
        }
        publish_json(self.path, record)


class Board:
    """TensorBoard's event files of a run."""

    def __init__(self, folder: Path, step: int) -> None:
        """Go on after `step`: what a stopped run told beyond it is not shown."""
        from tensorboardX import SummaryWriter

        purge = step + 1 if step else None
        self.writer = SummaryWriter(str(folder), purge_step=purge, write_to_disk=True)

    def add(self, step: int, values: dict[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is not written yet."""
        self.writer.close()

"""What training leaves for readers: `metrics.jsonl` for good, `progress.json` for now."""

import json
import os
import time
from pathlib import Path
from typing import Any


class Metrics:
    """A line a record, each with its step; equal runs write equal bytes."""

    def __init__(self, path: Path, step: int) -> None:
        """Go on after `step`: what a killed run wrote beyond its checkpoint is cut off."""
        self.path = path
        kept = [line for line in _lines(path) if json.loads(line)["step"] <= step] if step else []
        aside = path.with_name(f".{path.name}.part")
        aside.write_bytes(b"".join(kept))
        aside.replace(path)

    def add(self, **record: Any) -> None:
        """Append a record."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _lines(path: Path) -> list[bytes]:
    whole = path.read_bytes() if path.exists() else b""
    return [line for line in whole.splitlines(keepends=True) if line.endswith(b"\n")]


class Progress:
    """The current step and speed, replaced at most twice a second."""

    EVERY = 0.5

    def __init__(self, path: Path, step: int, steps: int, tokens_a_step: int) -> None:
        self.path, self.steps, self.tokens = path, steps, tokens_a_step
        self.start_step, self.start = step, time.monotonic()
        self.written = float("-inf")

    def show(self, step: int, loss: float) -> None:
        """Say where training is."""
        now = time.monotonic()
        if now - self.written < self.EVERY and step < self.steps:
            return
        self.written = now
        speed = (step - self.start_step) / max(now - self.start, 1e-9)
        record = {
            "step": step,
            "max_steps": self.steps,
            "loss": loss,
            "tokens_per_second": round(speed * self.tokens, 1),
            "seconds_left": round((self.steps - step) / speed, 1) if speed else None,
        }
        aside = self.path.with_name(f".{self.path.name}.part")
        aside.write_text(json.dumps(record) + "\n", encoding="utf-8")
        aside.replace(self.path)

"""A trainer that takes milliseconds: the marks of a real one, for faults to be tried on.

It has a real one's manners: a checkpoint published whole, metrics flushed row by row, progress,
and going on from the checkpoint it finds. Its checkpoints are made beforehand, in its data, where
a file `fault` may name the operation at which it is to die, and how long a step takes.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

DATA, OUTPUT = Path("/run/harness/data"), Path("/run/harness/output")
STEPS = sorted(int(path.stem) for path in DATA.glob("*.ckpt"))
FAULT = json.loads((DATA / "fault").read_text()) if (DATA / "fault").exists() else {}
operations = 0


def operation():
    """One write, flush or rename; the one the fault names is not survived."""
    global operations
    operations += 1
    if operations == FAULT.get("at"):
        os.kill(os.getpid(), signal.SIGKILL)


def publish(target, data):
    """Write beside, flush, rename, flush the folder."""
    part = target.with_name(f".{target.name}.part")
    with part.open("wb") as file:
        operation()
        file.write(data[: len(data) // 2])
        file.flush()
        operation()
        file.write(data[len(data) // 2 :])
        file.flush()
        operation()
        os.fsync(file.fileno())
    operation()
    part.rename(target)
    operation()


def main():
    """Train from the checkpoint that is there to the last step."""
    checkpoint, metrics = OUTPUT / "checkpoints/last.ckpt", OUTPUT / "metrics.jsonl"
    checkpoint.parent.mkdir(exist_ok=True)
    found = checkpoint.read_bytes() if checkpoint.exists() else None
    step = next((s for s in STEPS if (DATA / f"{s}.ckpt").read_bytes() == found), 0)
    lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
    kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
    publish(metrics, "".join(kept).encode())
    for step in (s for s in STEPS if s > step):
        time.sleep(FAULT.get("seconds", 0))
        sys.stdout.write(f"step {step}\n")
        sys.stdout.flush()
        with metrics.open("a") as file:
            operation()
            file.write(json.dumps({"step": step, "loss": 6 - step / STEPS[-1]}) + "\n")
        publish(
            OUTPUT / "progress.json", json.dumps({"step": step, "max_steps": STEPS[-1]}).encode()
        )
        publish(checkpoint, (DATA / f"{step}.ckpt").read_bytes())


main()

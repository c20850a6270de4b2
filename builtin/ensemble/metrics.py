"""`metrics.jsonl`: a line a record; equal runs write equal bytes."""

import json
import os
from pathlib import Path

from ensemble.files import publish
from ensemble.settings import Refusal


class Metrics:
    """The file and how many rows of it are committed."""

    def __init__(self, path: Path, rows: int) -> None:
        """Go on after `rows`: what a killed run wrote beyond its checkpoint is cut off.

        Raises Refusal where that many are not there.
        """
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        if len(whole) < rows:
            raise Refusal(f"{path}: has {len(whole)} rows, the checkpoint's metrics_rows is {rows}")
        publish(path, b"".join(whole[:rows]))
        self.path, self.rows = path, rows

    def add(self, row: dict[str, float]) -> None:
        """Append a record."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.rows += 1

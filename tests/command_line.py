"""The command line as a user runs it, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1]


def harness(
    root: Path, *words: str, check: int | None = 0, source: Path = SOURCE
) -> subprocess.CompletedProcess[str]:
    """Run a command on a root; its exit status must be `check`, and nothing a traceback.

    `source` is the checkout whose recipes and pins count.
    """
    done = subprocess.run(
        [sys.executable, "-sPm", "harness", "--root", str(root), *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "HARNESS_SOURCE": str(source)},
    )
    if check is not None:
        assert done.returncode == check, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done

"""The command line's start beside bare Python's, and beside importing torch."""

import os
import sys
import tempfile
from pathlib import Path

from side_by_side import best, command, tell

SOURCE = Path(__file__).parents[1]
ENV = {**os.environ, "PYTHONPATH": str(SOURCE)}


def main() -> None:
    """Compare, in an empty root, so that a plan's own look at the inputs is counted."""
    python = [sys.executable, "-sP"]
    with tempfile.TemporaryDirectory() as root:
        harness = [*python, "-m", "harness", "--root", root]
        seconds = best(
            {
                "python -c pass": command(*python, "-c", "pass", env=ENV),
                "harness --help": command(*harness, "--help", env=ENV),
                "harness plan mdlm lm1b": command(*harness, "plan", "mdlm", "lm1b", env=ENV),
                "import torch": command(*python, "-c", "import torch", env=ENV),
            },
            rounds=7,
        )
    tell(
        seconds,
        ("harness --help", "python -c pass"),
        ("harness plan mdlm lm1b", "python -c pass"),
        ("harness plan mdlm lm1b", "import torch"),
    )


if __name__ == "__main__":
    main()

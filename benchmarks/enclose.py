"""What enclosing costs: a sandboxed process beside a bare one, composing beside importing."""

import sys
import tempfile
from pathlib import Path

from side_by_side import best, command, tell

from harness import nix, places, sandbox
from harness.compose import compose, inside_box
from harness.plan import Choices, plan
from harness.project import Project

SOURCE = Path(__file__).parents[1]
# What the upstreams' own `--cfg job` imports before it composes.
IMPORTS = "import torch, hydra, omegaconf"


def main() -> None:
    """Compare in the smoke environment, which must be built."""
    with tempfile.TemporaryDirectory() as root:
        project = Project(source=SOURCE, root=Path(root))
        environment = nix.realise(project, "smoke")
        planned = plan(project, Choices("mdlm", "lm1b", profile="smoke"))
        box = inside_box(project, environment)

        def enclosed(code: str) -> None:
            done = sandbox.run(box, [places.PYTHON, "-c", code])
            assert done.returncode == 0, done.stderr

        bare = environment.base.command(environment.path, "-c", "pass")
        seconds = best(
            {
                "bare python -c pass": command(*bare),
                "sandboxed python -c pass": lambda: enclosed("pass"),
                "sandboxed composition": lambda: compose(project, planned, environment),
                "sandboxed imports of an upstream": lambda: enclosed(IMPORTS),
            },
            rounds=7,
        )
    tell(
        seconds,
        ("sandboxed python -c pass", "bare python -c pass"),
        ("sandboxed composition", "sandboxed imports of an upstream"),
    )
    start = seconds["sandboxed python -c pass"] - seconds["bare python -c pass"]
    sys.stdout.write(f"the sandbox itself: {start * 1000:.1f} ms\n")


if __name__ == "__main__":
    main()

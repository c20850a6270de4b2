"""Training inside the sandbox beside the same training outside it (tokens a second)."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from harness import folder, places
from harness.launch import Launch, ready_launch
from harness.plan import Choices, plan
from harness.project import Project
from harness.supervise import supervise

SOURCE = Path(__file__).parents[1]
STEPS = 60
ROUNDS = 6


def main() -> None:
    """Train in turns, inside and outside; print each, and the ratios of best and median."""
    with tempfile.TemporaryDirectory() as root:
        project = Project(source=SOURCE, root=Path(root))
        from harness.data import ready
        from harness.data.progress import silent

        choices = Choices("mdlm", "lm1b", profile="smoke")
        ready.prepare_embedded(project, plan(project, choices).recipe.data, silent)
        launch = ready_launch(project, plan(project, choices), lambda line: None)
        speeds: dict[str, list[float]] = {"outside": [], "inside": []}
        pair = (("outside", outside), ("inside", inside))
        for turn in range(ROUNDS):
            for name, train in pair if turn % 2 else reversed(pair):  # neither always goes first
                speeds[name].append(train(launch))
                sys.stdout.write(f"{name:8} {speeds[name][-1]:10.0f} tokens/s\n")
    for name, one in (("best", max), ("median", median)):
        ratio = one(speeds["inside"]) / one(speeds["outside"])
        sys.stdout.write(f"inside / outside, {name} of {ROUNDS}: {ratio:.3f}\n")


def shortened(argv: tuple[str, ...]) -> list[str]:
    """The launch's command for a few steps and without validation."""
    return [*argv, f"trainer.max_steps={STEPS}", "trainer.val_check_interval=1000000"]


def inside(launch: Launch) -> float:
    """Tokens a second of the sandboxed trainer."""
    run = launch.plan.run
    shutil.rmtree(run, ignore_errors=True)
    (run / folder.OUTPUT).mkdir(parents=True)
    logs = [run / folder.STDOUT, run / folder.STDERR]
    status = supervise(launch.box(), shortened(launch.plan.argv), *logs, lambda: False)
    assert status == 0, logs[1].read_text()[-2000:]
    return _speed(run / folder.OUTPUT)


def outside(launch: Launch) -> float:
    """Tokens a second of the same command on the bare host."""
    with tempfile.TemporaryDirectory() as output:
        sources = {mount.target: str(mount.source) for mount in launch.plan.mounts}
        sources |= {places.OUTPUT: output, places.ENVIRONMENT: str(launch.environment.path)}

        def here(text: str) -> str:
            for target, source in sources.items():
                text = text.replace(target, source)
            return text

        base = launch.environment.base
        argv = [here(word) for word in shortened(launch.plan.argv)]
        variables = {name: here(value) for name, value in launch.plan.variables.items()}
        done = subprocess.run(
            base.command(launch.environment.path, *argv[1:]),
            cwd=output,
            env={"PATH": os.environ["PATH"], "HOME": output, **variables},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        return _speed(Path(output))


def _speed(output: Path) -> float:
    progress = json.loads((output / "progress.json").read_text())
    return float(progress["tokens_per_second"])


if __name__ == "__main__":
    main()

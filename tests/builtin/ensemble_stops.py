"""Stop a run at random instants, go on, and compare its bytes with a run never stopped.

`python tests/builtin/ensemble_stops.py 20` does so twenty times and says what came out; the tests
do it a few times. Signals take turns; the instant is a random update and a random moment in it.
"""

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILTIN = Path(__file__).parents[2] / "builtin"
sys.path[:0] = [str(BUILTIN), str(Path(__file__).parent)]

import ensemble_runs  # noqa: E402

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
PROGRAM = "import json, sys; from ensemble.start import run; sys.exit(run(json.load(sys.stdin)))"


def start(settings: dict) -> subprocess.Popen:
    """The trainer in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(BUILTIN), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"},
    )
    process.stdin.write(json.dumps(settings))
    process.stdin.close()
    return process


def step(folder: Path) -> int:
    """The step a run tells."""
    try:
        return json.loads((folder / "progress.json").read_text())["step"]
    except (OSError, ValueError):
        return 0


def stopped(settings: dict, number: int, at: int, chance: random.Random) -> int:
    """Start a run, send it a signal past update `at`; its exit status."""
    process = start(settings)
    while process.poll() is None and step(Path(settings["output"])) < at:
        time.sleep(0.001)
    time.sleep(chance.random() * 0.02)
    process.send_signal(number)
    status = process.wait()
    process.stderr.close()
    return status


def whole(settings: dict) -> None:
    """Run to the end."""
    process = start(settings)
    said = process.stderr.read()
    if process.wait():
        raise SystemExit(f"the trainer ended with {process.returncode}: {said}")


def stops(root: Path, times: int, seed: int) -> list[str]:
    """Stop `times` runs once each; a line each. Raises AssertionError where one differs."""
    chance = random.Random(seed)
    ensemble_runs.write_stores(root / "stores")
    for member in ("v42", "s1", "s2", "s3"):
        whole(ensemble_runs.settings(root, member, member=member))
    settings = ensemble_runs.student(root, "student", "geo-v42")
    whole(settings)
    wanted = ensemble_runs.results(root / "student")
    steps = json.loads((root / "student" / "summary.json").read_text())["step"]
    lines = []
    for turn in range(times):
        (root / "student").rename(root / f"done-{turn}")  # the next has the same folder's name
        number = SIGNALS[turn % len(SIGNALS)]
        at = chance.randrange(steps)
        status = stopped(settings, number, at, chance)
        whole(settings)
        assert ensemble_runs.results(root / "student") == wanted, f"{number} past update {at}"
        lines.append(f"{number.name} past update {at} of {steps}: status {status}, same bytes")
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for line in stops(Path(folder), int(sys.argv[1]), seed=int(time.time())):
            print(line, flush=True)  # noqa: T201

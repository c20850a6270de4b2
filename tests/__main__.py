"""All checks of a checkout: `./bootstrap test`, or `nix run .#test`, in its folder.

With arguments, only pytest runs and gets them: `nix run .#test -- tests/test_plan.py -k mdlm`; a
program is run as what it is: `nix run .#test -- benchmarks/start.py`, or `tests/faults/sweep.py`.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
PROGRAMS = ("benchmarks/", "tests/faults/sweep.py", "tests/fuzz/guided.py")


def commands(arguments: list[str]) -> list[list[str]]:
    """The checks, quickest first; the command's own name is the first argument."""
    pytest = [sys.executable, "-m", "pytest"]
    if arguments[1:2] and arguments[1].startswith(PROGRAMS):
        return [[sys.executable, *arguments[1:]]]
    if arguments[1:]:
        return [[*pytest, *arguments[1:]]]
    ruff = str(Path(sys.executable).with_name("ruff"))
    return [
        [ruff, "check", "--quiet"],
        [ruff, "format", "--check", "--quiet"],
        [sys.executable, "-m", "mypy"],
        # A file's tests stay together, for what they share; trainings take all cores by themselves.
        [*pytest, "-m", "not e2e", "--numprocesses", "logical", "--dist", "loadfile"],
        [*pytest, "-m", "e2e"],
    ]


@contextmanager
def scratch() -> Iterator[str]:
    """A folder for the tests' own, so that no older run's is met; gone after, however deep."""
    folder = tempfile.mkdtemp(prefix="harness-test-")
    try:
        yield folder
    finally:
        subprocess.run(["rm", "-rf", folder], check=False)


def main() -> None:
    """Run every check, also after one that failed; exit with the first failure's status."""
    # Test processes run beside each other on few cores, where waiting threads must not spin.
    environment = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    environment["PYTHONPATH"] = f"{CHECKOUT}:{CHECKOUT / 'tests'}"
    with scratch() as folder:
        if not sys.argv[2:]:  # a chosen test's folders stay, to be looked at
            environment["PYTEST_DEBUG_TEMPROOT"] = folder
        statuses = [
            subprocess.run(command, cwd=CHECKOUT, env=environment, check=False).returncode
            for command in commands(sys.argv[1:])
        ]
    sys.exit(next((status for status in statuses if status), 0))


if __name__ == "__main__":
    main()

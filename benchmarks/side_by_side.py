"""Measure commands alternately and print the ratios of their best times."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping


def best(
    measured: Mapping[str, Callable[[], object]],
    rounds: int,
    before: Callable[[], object] | None = None,
) -> dict[str, float]:
    """Seconds of each, the best of `rounds`, taken in turns so that all see one machine.

    `before` is called ahead of each, off the clock.
    """
    seconds = {name: float("inf") for name in measured}
    for _ in range(rounds):
        for name, function in measured.items():
            if before is not None:
                before()
            start = time.perf_counter()
            function()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


def command(*words: str, env: Mapping[str, str] | None = None) -> Callable[[], object]:
    """A call that runs a command to its end, which must be good."""

    def run() -> None:
        subprocess.run(words, check=True, capture_output=True, env=env)

    return run


def tell(seconds: Mapping[str, float], *ratios: tuple[str, str]) -> None:
    """Print the times for the record, then the ratios that count."""
    for name, value in seconds.items():
        sys.stdout.write(f"{name:44} {value * 1000:9.1f} ms\n")
    for one, other in ratios:
        sys.stdout.write(f"{one} / {other}: {seconds[one] / seconds[other]:.2f}\n")

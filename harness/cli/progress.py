"""Progress on stderr: a live line on a terminal, now and then a plain line in a log."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from harness import folder
from harness.plan import Plan
from harness.run import Progress
from harness.text import printable

PLAIN_SECONDS = 15.0


class Reporter:
    """Says what is being done; `training` shows the trainer's own progress while it runs."""

    def __init__(self) -> None:
        """Look once whether anybody watches."""
        self._live = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._said = -PLAIN_SECONDS
        self._open = False

    def say(self, line: str) -> None:
        """One plain line."""
        self._close()
        _write(f"{printable(line)}\n")

    @contextmanager
    def training(self, plan: Plan) -> Iterator[None]:
        """Frame a training: its start, and a clean line at its end."""
        recipe = plan.recipe
        if not (plan.run / folder.COMPLETED).exists():
            self.say(f"training {recipe.title} on {recipe.dataset} ({recipe.profile})")
        try:
            yield
        finally:
            self._close()

    def progress(self, progress: Progress) -> None:
        """Show where the training is."""
        now = time.monotonic()
        if self._live:
            _write(f"\r\x1b[2K{line(progress)[: _columns() - 1]}")
            self._open = True
        elif now - self._said >= PLAIN_SECONDS:
            _write(f"{line(progress)}\n")
            self._said = now

    def _close(self) -> None:
        if self._open:
            _write("\n")
            self._open = False


def _write(text: str) -> None:
    """Write to stderr if anybody listens: that a pager or `tee` is gone must stop no training."""
    with suppress(OSError):
        click.echo(text, err=True, nl=False)


def _columns() -> int:
    """The terminal's width: a line that wraps could not be taken back."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def line(progress: Progress) -> str:
    """`step 120/300  loss 4.321  12.3k tokens/s  0:42 left`, as far as it is known.

    The first step takes longer than any other: what it says of the speed would mislead.
    """
    parts = [f"step {progress.step}/{progress.max_steps}"]
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.3f}")
    if progress.step > 1 and progress.tokens_per_second is not None:
        parts.append(f"{progress.tokens_per_second / 1000:.1f}k tokens/s")
    if progress.step > 1 and progress.seconds_left is not None:
        parts.append(f"{clock(progress.seconds_left)} left")
    return "  ".join(parts)


def clock(duration: float) -> str:
    """Seconds as `0:00:42`."""
    minutes, seconds = divmod(round(duration), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"

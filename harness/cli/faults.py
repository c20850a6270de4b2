"""Records that cannot be read, where a command goes on without them: a line each on stderr."""

from pathlib import Path

from harness.cli.saying import note
from harness.errors import HarnessError
from harness.text import short


class Faults:
    """Says each fault once, though it is found again and again."""

    def __init__(self) -> None:
        """None so far."""
        self._said: set[Path] = set()

    def __call__(self, path: Path, error: HarnessError) -> None:
        """Say why `path` is passed over."""
        if path not in self._said:
            self._said.add(path)
            note(f"harness: {short(str(error), 500)}; passed over")

"""How long work says how far it is."""

from collections.abc import Callable

# what, done, total
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Say nothing."""

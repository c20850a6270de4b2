"""Arguments of several commands; what can be none is refused before anything is done."""

from pathlib import Path
from typing import Any

import click

from harness.files import impossible
from harness.text import short


class Place(click.Path):
    """As click's type, of a path that the system takes and a record can hold."""

    def __init__(self, **wanted: Any) -> None:
        """The options are click's."""
        super().__init__(path_type=Path, **wanted)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Raises click's usage error for what is none."""
        if why := impossible(str(value)):
            self.fail(f"{short(str(value))!r}: {why}", param, ctx)
        return super().convert(value, param, ctx)


RUN = Place(exists=True, file_okay=False)

_MANY = 1_000_000_000  # more than anything has
STEPS = click.IntRange(1, _MANY)
LINES = click.IntRange(0, _MANY)
ROWS = click.IntRange(1, 1_000_000)
CORES = click.IntRange(1, 4096)

dataset_profile = click.option(
    "--profile",
    type=click.Choice(["paper", "smoke"]),
    default="paper",
    show_default=True,
    help="smoke: the embedded stand-in, generated here; paper: the fetched dataset.",
)

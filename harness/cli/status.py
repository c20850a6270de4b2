"""`harness status`: what every run of a root is doing."""

from dataclasses import replace
from pathlib import Path

import click

from harness.cli.arguments import RUN
from harness.cli.progress import clock
from harness.cli.saying import say_json
from harness.cli.table import show_table
from harness.project import Project
from harness.text import short

_WIDEST = 100  # characters of a cell: what a run says must not push the others aside


@click.command()
@click.argument("root", required=False, type=RUN)
@click.option("--json", "as_json", is_flag=True, help="Print all that is known as JSON.")
@click.pass_obj
def command(project: Project, root: Path | None, as_json: bool) -> None:
    """Show every run of ROOT (default: --root): state, step, speed, time left, node, job.

    Read from files alone, so it says the same on every machine that sees them. A run is "silent"
    when it was not ended and has told nothing for ten minutes.
    """
    from harness.status import statuses

    found = statuses(project if root is None else replace(project, root=root.resolve()))
    if as_json:
        say_json([one.record() for one in found])
        return
    rows = [
        (
            short(one.run.name, _WIDEST),
            one.state,
            "" if one.step is None else f"{one.step}/{one.max_steps}",
            "" if one.tokens_per_second is None else f"{one.tokens_per_second / 1000:.1f}k/s",
            "" if one.seconds_left is None else clock(one.seconds_left),
            short(one.node or "", _WIDEST),
            short(one.job or "", _WIDEST),
            short(one.note or "", _WIDEST),
        )
        for one in found
    ]
    show_table(("run", "state", "step", "tokens", "left", "node", "job", ""), rows)

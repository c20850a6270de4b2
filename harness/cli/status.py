"""`harness status`: what every run of a root is doing."""

import json
from dataclasses import replace
from pathlib import Path

import click

from harness.cli.progress import clock
from harness.cli.table import show_table
from harness.project import Project
from harness.text import printable


@click.command()
@click.argument(
    "root", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
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
        click.echo(json.dumps([one.record() for one in found], indent=1))
        return
    rows = [
        (
            one.run.name,
            one.state,
            "" if one.step is None else f"{one.step}/{one.max_steps}",
            "" if one.tokens_per_second is None else f"{one.tokens_per_second / 1000:.1f}k/s",
            "" if one.seconds_left is None else clock(one.seconds_left),
            one.node or "",
            one.job or "",
            printable(one.note or "")[:100],
        )
        for one in found
    ]
    show_table(("run", "state", "step", "tokens", "left", "node", "job", ""), rows)

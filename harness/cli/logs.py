"""`harness logs`: what a run's trainer and its jobs said."""

from pathlib import Path

import click

from harness.cli.arguments import LINES, Place
from harness.cli.faults import Faults
from harness.cli.saying import say_lines
from harness.project import Project


@click.command()
@click.argument("run", type=Place())
@click.option("--follow", "-f", is_flag=True, help="Go on as more is written, until Ctrl-C.")
@click.option(
    "--lines",
    "-n",
    type=LINES,
    help="Begin with the last lines of each.",
)
@click.pass_obj
def command(project: Project, run: Path, follow: bool, lines: int | None) -> None:
    """Print the logs of RUN (a run folder or its name): its trainer's, and its last job's.

    What a terminal would act on is shown as an escape.
    """
    from harness.tail import follow as lines_of
    from harness.tail import of_run

    faults = Faults()
    for line in lines_of(lambda: of_run(project, run, faults), lines, follow):
        say_lines(line)

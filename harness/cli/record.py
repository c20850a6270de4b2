"""`harness record`: keep a smoke run's result in the repository, for others to compare with."""

from pathlib import Path

import click

from harness.cli.arguments import RUN
from harness.cli.saying import say
from harness.project import Project


@click.command()
@click.argument("runs", type=RUN, nargs=-1, required=True)
@click.option(
    "--source",
    type=RUN,
    help="The checkout whose records/ is written.  [default: the current folder]",
)
@click.pass_obj
def command(project: Project, runs: tuple[Path, ...], source: Path | None) -> None:
    """Write the launches and results of completed smoke RUNS to records/launches.json.

    A launch is known by its identity without the base; each base has a result of its own.
    """
    from harness.records import FILE, record

    # Not the tree this runs from: that one lies in the Nix store, which nothing writes to.
    checkout = Project(source=(source or Path()).resolve(), root=project.root)
    for run in runs:
        entry = record(checkout, run.resolve())
        bases = len(entry["results"])
        told = f"{FILE}: {entry['model']} on {entry['dataset']}, {bases} base(s)"
        say(told)

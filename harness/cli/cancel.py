"""`harness cancel`: take launches back from Slurm."""

from pathlib import Path

import click

from harness.cli.faults import Faults
from harness.cli.saying import say
from harness.project import Project


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.pass_obj
def command(project: Project, runs: tuple[str, ...]) -> None:
    """Cancel the jobs of each RUN (a run folder, its name, or a job's number).

    A trainer that runs saves first; the same `submit` goes on from there. Students that wait for
    a cancelled teacher are cancelled by Slurm.
    """
    from harness.slurm.cancel import cancel

    for job, run in cancel(project, [_name(run) for run in runs], Faults()):
        say(f"cancelled  {job:10} {run.name}")


def _name(run: str) -> str:
    return Path(run).name

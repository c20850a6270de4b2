"""`harness replicate`: a recorded launch again, and what differs."""

from pathlib import Path

import click

from harness.cli.arguments import RUN, STEPS
from harness.cli.diff import show
from harness.cli.distrust import full_option
from harness.cli.limiting import limit_options
from harness.plan import plan
from harness.project import Project


@click.command()
@click.argument("run", type=RUN)
@click.option("--steps", type=STEPS, help="Stop after this step; compare up to it.")
@click.option("--name", help="Name of the new run folder, instead of RUN's with -replica.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@limit_options
@full_option
@click.pass_obj
def command(
    project: Project, run: Path, steps: int | None, name: str | None, as_json: bool
) -> None:
    """Run the launch recorded in RUN again, in a fresh folder from pins alone, and compare.

    Exit status 0: identity, configuration, measurements and tensors are equal. 1: something
    differs. 2: nothing differs, but not all could be compared.
    """
    from harness.cli.launching import launch
    from harness.cli.progress import Reporter
    from harness.replicate import choices, replicate, same_launch

    run = run.resolve()
    planned = plan(project, choices(project, run, name))
    reporter = Reporter()
    ready = launch(project, planned, reporter)
    same_launch(run, ready)
    with reporter.training(planned):
        found = replicate(run, ready, reporter.progress, steps)
    show(found, as_json)

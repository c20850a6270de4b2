"""`harness train`: from a recipe to a completed run."""

from typing import TYPE_CHECKING, Any

import click

from harness.chain import chain
from harness.cli.choices import launch_choices
from harness.cli.distrust import full_option
from harness.cli.limiting import limit_options
from harness.cli.plan import show_plan
from harness.cli.saying import say, say_json
from harness.plan import Choices, Plan, plan
from harness.project import Project

if TYPE_CHECKING:
    from harness.run import Outcome


@click.command()
@launch_choices
@click.option("--with-teacher", is_flag=True, help="First train its teachers, unless that is done.")
@limit_options
@click.option("--dry-run", is_flag=True, help="Show the plan and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result (or the plan) as JSON.")
@full_option
@click.pass_obj
def command(
    project: Project,
    choices: Choices,
    with_teacher: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Train MODEL on DATASET in the sandbox, check the result and record it.

    The same command again skips a completed run and goes on with an interrupted one.
    """
    before: tuple[Plan, ...] = ()
    if with_teacher:
        before, choices = chain(project, choices)
    planned = plan(project, choices)  # before any training: what is refused is refused now
    if dry_run:
        for one in (planned,) if as_json else (*before, planned):
            show_plan(one, as_json)
        return
    for one in before:
        outcome = _train(project, one)
        if not as_json:
            _tell(outcome, as_json)
    _tell(_train(project, plan(project, choices)), as_json)


def _train(project: Project, planned: Plan) -> "Outcome":
    from harness.cli.launching import launch
    from harness.cli.progress import Reporter
    from harness.run import train

    reporter = Reporter()
    ready = launch(project, planned, reporter)
    with reporter.training(planned):
        return train(ready, reporter.progress)


def _tell(outcome: Any, as_json: bool) -> None:

    if as_json:
        say_json({"run": str(outcome.run), **outcome.record})
        return
    record = outcome.record
    checkpoint, metrics = record["checkpoint"], record["metrics"]
    rows = {
        "skipped" if outcome.skipped else "completed": outcome.run,
        "identity": record["identity_sha256"],
        "step": checkpoint["step"],
        **{name.replace("_", " "): f"{metrics[name]:.4g}" for name in TOLD if name in metrics},
        "tensor digest": checkpoint["tensors"]["state"]["digest"],
    }
    for name, value in rows.items():
        say(f"{name:22} {value}")


TOLD = ("loss", "validation_nll", "validation_perplexity", "unigram_perplexity")

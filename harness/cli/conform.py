"""`harness conform`: the upstreams' own code through the whole harness, twice."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness import conform
from harness.chain import chain
from harness.cli.choices import mirror_option
from harness.cli.saying import say
from harness.errors import HarnessError, Refused
from harness.plan import Choices, plan
from harness.project import Project
from harness.recipes import load

if TYPE_CHECKING:
    from harness.cli.progress import Reporter


@click.command()
@click.argument("model", required=False)
@click.option("--dataset", default="lm1b", show_default=True)
@mirror_option
@click.pass_obj
def command(project: Project, model: str | None, dataset: str, mirrors: Mapping[str, Any]) -> None:
    """Run MODEL's pinned upstream, shrunk, on a CPU, twice; compare every tensor of both runs.

    Without MODEL, each model whose code is an upstream's. Prints a table; runs that are there
    already are not made again.

    Exit status 0: the tensors of each model are equal. 1: some differ, or a run failed.
    2: none differ, but not every model could be run.
    """
    from harness.cli.progress import Reporter

    catalogue = load(project.source)
    chosen = (model,) if model else conform.models(project, catalogue, dataset)
    for cells in (conform.HEADER, ["---"] * len(conform.HEADER)):
        _line(cells)
    statuses = set()
    for name in chosen:
        choices = Choices(name, dataset, profile=conform.PROFILE, mirrors=mirrors)
        try:
            row = _twice(project, choices, Reporter())
        except HarnessError as error:
            _line([name, *["-"] * 5, str(error)])
            statuses.add(2 if isinstance(error, Refused) else 1)
            continue
        _line(row.cells())
        statuses.add(0 if row.equal else 1)
    raise SystemExit(1 if 1 in statuses else max(statuses))


def _twice(project: Project, choices: Choices, reporter: "Reporter") -> conform.Row:
    """Both runs of a launch, and its teachers' before them, unless they are there."""
    catalogue = load(project.source)
    if catalogue.teachers(catalogue.recipe(choices.model, choices.dataset, choices.profile)):
        before, choices = chain(project, choices)
        for teacher in before:
            _train(project, teacher.choices, reporter)
    first = plan(project, choices)
    runs = [_train(project, one, reporter) for one in (choices, conform.again(first))]
    return conform.row(*runs)


def _train(project: Project, choices: Choices, reporter: "Reporter") -> Path:
    from harness.cli.launching import launch
    from harness.run import train

    planned = plan(project, choices)
    ready = launch(project, planned, reporter)
    with reporter.training(planned):
        return train(ready, reporter.progress).run


def _line(cells: Any) -> None:
    say(f"| {' | '.join(cells)} |")

"""`harness submit`: launches as Slurm jobs."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.arguments import CORES, Place
from harness.cli.choices import one_or_many
from harness.cli.saying import say_json
from harness.cli.table import show_entries, show_table
from harness.errors import Refused
from harness.matrix import Entry, entries, read
from harness.plan import Choices
from harness.project import Project

if TYPE_CHECKING:
    from harness.slurm.resources import Resources
    from harness.slurm.submit import Submitted

OPTIONS = (
    click.option("--matrix", type=Place(), help="A file of many launches."),
    click.option("--time", required=True, help="A job's limit: minutes, H:MM:SS or D-HH:MM."),
    click.option("--partition", "-p", help="As sbatch takes them; the cluster's own if left out."),
    click.option("--account", "-A"),
    click.option("--qos", "-q"),
    click.option("--constraint", "-C"),
    click.option("--mem", help="Memory a node, e.g. 256G."),
    click.option("--cpus-per-task", type=CORES, help="Cores a node."),
    click.option("--sbatch", multiple=True, metavar="NAME=VALUE", help="Any other sbatch option."),
    click.option(
        "--save-seconds",
        type=click.IntRange(10, 86_400),
        default=120,
        show_default=True,
        help="How long before its limit a job saves, to go on in the queue.",
    ),
    click.option("--interface", help="Network between nodes, e.g. ib0; else the route's own."),
    click.option("--dry-run", is_flag=True, help="Show the table and submit nothing."),
    click.option("--json", "as_json", is_flag=True, help="Print the table as JSON."),
)


def _resources(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options above; what is asked of Slurm becomes one `resources` value."""

    @wraps(function)
    def command(*args: Any, sbatch: tuple[str, ...], **given: Any) -> Any:
        from harness.slurm.resources import NAMES, Resources, pairs

        chosen = {name: given.pop(name) for name in NAMES}
        return function(*args, resources=Resources(**chosen, others=pairs(sbatch)), **given)

    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.command()
@one_or_many
@_resources
@click.pass_obj
def command(
    project: Project,
    choices: Choices,
    matrix: Path | None,
    resources: "Resources",
    interface: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Submit MODEL on DATASET, or all of a matrix, to Slurm; each student after its teachers.

    Jobs that come to their time limit, are preempted or lose a node go on from their last
    checkpoint. What is complete, or waits already, is not submitted again.
    """
    table = _table(project, choices, matrix)
    for entry in table:
        resources.parameters(entry.plan, "", None)  # what is refused is refused now
    if dry_run:
        show_entries(table, as_json)
        return
    found = _submit(project, table, resources, interface)
    if as_json:
        say_json([_record(one) for one in found])
        return
    show_table(
        ("state", "job", "run", "after"),
        [
            (
                one.state,
                one.job or "",
                one.entry.plan.run.name,
                ", ".join(run.name for run in one.entry.after),
            )
            for one in found
        ],
    )


def _table(project: Project, choices: Choices, matrix: Path | None) -> list[Entry]:
    if (matrix is None) != bool(choices.model):
        raise Refused("submit: give MODEL and DATASET, or --matrix FILE")
    if not choices.resume:
        raise Refused("--no-resume: a job that is put back would begin anew; leave it out")
    if matrix is None:
        return entries(project, [choices])
    if choices.name or choices.teachers:
        raise Refused("--matrix: --name and --teacher are of one launch; leave them out")
    return entries(project, read(project, matrix, choices))


def _submit(
    project: Project, table: list[Entry], resources: "Resources", interface: str | None
) -> "list[Submitted]":
    """Make the data, identify what can be now, then put all into the queue."""
    from harness.cli.launching import launch, supplied
    from harness.cli.progress import Reporter
    from harness.slurm.commands import available
    from harness.slurm.submit import submit

    available()
    reporter = Reporter()
    complete = {entry.plan.run for entry in table if entry.complete}
    identities = {}
    for entry in table:
        if entry.complete:
            continue
        if all(run in complete for run in entry.after):
            ready = launch(project, entry.plan, reporter)
            identities[entry.plan.run] = ready.identity.sha256
        else:  # its identity holds its teacher's digest, which is not there yet
            supplied(project, entry.plan, reporter)
    return submit(project, table, identities, resources, interface)


def _record(one: "Submitted") -> dict[str, object]:
    return {
        "run": str(one.entry.plan.run),
        "state": one.state,
        "job": one.job,
        "after": [str(run) for run in one.entry.after],
    }

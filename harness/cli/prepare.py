"""`harness prepare`: tokenise and pack a dataset, and lay it out for training."""

import click

from harness.cli.bars import bars
from harness.project import Project


@click.command()
@click.argument("dataset")
@click.option(
    "--profile",
    type=click.Choice(["paper", "smoke"]),
    default="paper",
    show_default=True,
    help="smoke: the embedded stand-in, generated here; paper: the fetched dataset.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 4096),
    help="Default: one a usable core, at most 8 (2 GiB).",
)
@click.pass_obj
def command(project: Project, dataset: str, profile: str, processes: int | None) -> None:
    """Tokenise and pack DATASET, and lay it out for training.

    Work stopped in the middle goes on where it was; the result does not depend on it, nor on
    the number of processes.
    """
    from harness.data import pins, ready

    key = pins.load(project.source).key(dataset, profile)
    with bars() as progress:
        found = ready.prepare_dataset(project, key, progress, processes)
    for split, counts in found.splits.items():
        click.echo(f"{split}: {counts.documents} documents, {counts.sequences} sequences")
    click.echo(f"manifest {found.sha256()}")

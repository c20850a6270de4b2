"""`harness prepare`: tokenise and pack a dataset, and lay it out for training."""

import click

from harness.cli.arguments import CORES, dataset_profile
from harness.cli.bars import bars
from harness.cli.saying import say
from harness.project import Project


@click.command()
@click.argument("dataset")
@dataset_profile
@click.option(
    "--processes",
    type=CORES,
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
        say(f"{split}: {counts.documents} documents, {counts.sequences} sequences")
    say(f"manifest {found.sha256()}")

"""`harness verify`: read a prepared dataset whole."""

import click

from harness.cli.bars import bars
from harness.errors import HarnessError
from harness.project import Project


@click.command()
@click.argument("dataset")
@click.option(
    "--profile",
    type=click.Choice(["paper", "smoke"]),
    default="paper",
    show_default=True,
    help="smoke: the embedded stand-in; paper: the fetched dataset.",
)
@click.option("--sample", type=click.IntRange(0), default=0, help="Decode so many rows a split.")
@click.pass_obj
def command(project: Project, dataset: str, profile: str, sample: int) -> None:
    """Read every byte and row of the prepared DATASET and compare with its manifest."""
    from harness.data import pins
    from harness.data import verify as verification
    from harness.data.places import Places

    known = pins.load(project.source)
    chosen = known.dataset(known.key(dataset, profile))
    places = Places.of(project)
    with bars() as progress:
        verdict = verification.verify(places, chosen.processed, progress)
    for problem in verdict.problems:
        click.echo(problem, err=True)
    if verdict.problems:
        raise HarnessError(
            f"{chosen.processed}: {len(verdict.problems)} problem(s); prepare it again"
        )
    model = known.model(chosen.tokenizer)
    snapshot = places.snapshot("model", model.repo, model.revision)
    if sample:
        for split, row, text in verification.sample(places, chosen.processed, snapshot, sample):
            click.echo(f"--- {split} row {row}\n{text}")
    click.echo(f"{chosen.processed}: {verdict.rows} rows as the manifest says")

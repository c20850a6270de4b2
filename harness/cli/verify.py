"""`harness verify`: read a prepared dataset whole."""

import click

from harness.cli.arguments import ROWS, dataset_profile
from harness.cli.bars import bars
from harness.cli.distrust import full_option
from harness.cli.saying import note, say, say_lines
from harness.errors import HarnessError
from harness.project import Project


@click.command()
@click.argument("dataset")
@dataset_profile
@click.option("--sample", type=ROWS, help="Decode so many rows a split.")
@full_option
@click.pass_obj
def command(project: Project, dataset: str, profile: str, sample: int | None) -> None:
    """Read every byte and row of the prepared DATASET and compare with its manifest.

    The raw text, the tokenizer and the training caches are compared with their records too.
    """
    from harness.data import pins
    from harness.data import verify as verification
    from harness.data.places import Places

    known = pins.load(project.source)
    chosen = known.dataset(known.key(dataset, profile))
    places, around = Places.of(project), []
    with bars() as progress:
        verdict = verification.verify(places, chosen.processed, progress)
        if not verdict.problems:
            around = verification.verify_around(project, chosen.key, progress)
    for problem in verdict.problems:
        note(problem)
    if verdict.problems:
        raise HarnessError(
            f"{chosen.processed}: {len(verdict.problems)} problem(s); prepare it again"
        )
    model = known.model(chosen.tokenizer)
    snapshot = places.snapshot("model", model.repo, model.revision)
    if sample:
        for split, row, text in verification.sample(places, chosen.processed, snapshot, sample):
            say_lines(f"--- {split} row {row}\n{text}")
    for line in (*around, f"{chosen.processed}: {verdict.rows} rows as the manifest says"):
        say(line)

"""`harness sample`: print text that a completed run's model draws."""

import json
from pathlib import Path

import click

from harness.cli.arguments import ROWS, RUN, STEPS
from harness.cli.distrust import full_option
from harness.cli.limiting import limit_options
from harness.cli.saying import note, say
from harness.project import Project


@click.command()
@click.argument("run", type=RUN)
@click.option("--count", type=ROWS, default=4, show_default=True, help="Rows to draw.")
@click.option(
    "--steps",
    type=STEPS,
    default=128,
    show_default=True,
    help="Steps of the sampler; distilled models need few.",
)
@click.option("--seed", type=click.IntRange(0, (1 << 32) - 1), default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print token ids too, a JSON object a line.")
@limit_options
@full_option
@click.pass_obj
def command(project: Project, run: Path, count: int, steps: int, seed: int, as_json: bool) -> None:
    """Draw rows from the checkpoint of RUN with its trainer's own sampler, in the sandbox.

    The averaged (EMA) weights are used. Nothing is written.
    """
    from harness.sampling import Draw, sample

    for number, row in enumerate(sample(project, run.resolve(), Draw(count, steps, seed), note), 1):
        if as_json:
            say(json.dumps({"ids": row.ids, "text": row.text}))
        else:
            say(f"[{number}] {row.text}")

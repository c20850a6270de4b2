"""`harness evaluate`: measure a completed run's checkpoint."""

import json
from pathlib import Path

import click

from harness.cli.distrust import full_option
from harness.cli.limiting import limit_options
from harness.cli.paths import RUN
from harness.project import Project
from harness.text import printable


@click.command()
@click.argument("run", type=RUN)
@click.argument("name", default="validation-perplexity")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@limit_options
@full_option
@click.pass_obj
def command(project: Project, run: Path, name: str, as_json: bool) -> None:
    """Measure the checkpoint of RUN by the pinned evaluation NAME, in the sandbox.

    The result, with an identity linked to the run's, lies below evaluations/; the same command
    again tells it without measuring again.
    """
    from harness.evaluation import evaluate, ready

    def say(line: str) -> None:
        click.echo(printable(line), err=True)

    launch = ready(project, run.resolve(), name, say)
    say(f"evaluating {run.resolve().name}: {name}")
    outcome = evaluate(launch)
    record = outcome.record
    if as_json:
        click.echo(json.dumps({"folder": str(outcome.folder), **record}, indent=1))
        return
    rows = {
        "skipped" if outcome.skipped else "evaluated": outcome.folder,
        "identity": record["identity_sha256"],
        record["metric"].replace("_", " "): f"{record['value']:.6g}",
    }
    for title, value in rows.items():
        click.echo(printable(f"{title:22} {value}"))

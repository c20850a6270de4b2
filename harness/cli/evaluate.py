"""`harness evaluate`: measure a completed run's checkpoint."""

from pathlib import Path

import click

from harness.cli.arguments import RUN
from harness.cli.distrust import full_option
from harness.cli.limiting import limit_options
from harness.cli.saying import note, say, say_json
from harness.project import Project


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

    launch = ready(project, run.resolve(), name, note)
    note(f"evaluating {run.resolve().name}: {name}")
    outcome = evaluate(launch)
    record = outcome.record
    if as_json:
        say_json({"folder": str(outcome.folder), **record})
        return
    rows = {
        "skipped" if outcome.skipped else "evaluated": outcome.folder,
        "identity": record["identity_sha256"],
        record["metric"].replace("_", " "): f"{record['value']:.6g}",
    }
    for title, value in rows.items():
        say(f"{title:22} {value}")

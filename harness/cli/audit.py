"""`harness audit`: check a run folder, or every run below a folder."""

import json
import sys
from pathlib import Path

import click

from harness.project import Project


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
@click.pass_obj
def command(project: Project, run: Path, as_json: bool) -> None:
    """Check each claim of RUN from its files.

    Exit status 0: all hold. 1: something differs. 2: nothing differs, but something could not be
    checked on this machine, so the run is not called good.
    """
    from harness.audit import audit

    found = audit(project, run.resolve())
    if as_json:
        click.echo(json.dumps(found.record(), indent=1))
    else:
        _table(found)
    sys.exit(found.exit_code)


def _table(found: object) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from harness.audit import Audit, Verdict

    assert isinstance(found, Audit)
    colours = {Verdict.HOLDS: "green", Verdict.DIFFERS: "red", Verdict.UNCHECKED: "yellow"}
    table = Table(title=f"audit of {found.run.name}", title_justify="left")
    for column in ("claim", "verdict", "what was found"):
        table.add_column(column, overflow="fold")
    for claim in found.claims:
        detail = claim.why
        if claim.verdict is Verdict.DIFFERS and claim.expected:
            detail = f"expected {claim.expected}, found {claim.found} {claim.why}".strip()
        table.add_row(claim.name, Text(claim.verdict.value, colours[claim.verdict]), Text(detail))
    Console().print(table)

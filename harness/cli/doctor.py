"""`harness doctor`: what is ready on this machine, and how to mend what is not."""

import json
import sys
from dataclasses import asdict

import click

from harness.doctor import examine, ready
from harness.probe import Check
from harness.project import Project

STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list instead of a table.")
@click.pass_obj
def command(project: Project, as_json: bool) -> None:
    """Say what is ready on this machine and how to mend what is not.

    The exit status is 0 where one can train here and 1 where something must be mended first.
    """
    checks = examine(project)
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        _show(checks)
    sys.exit(0 if ready(checks) else 1)


def _show(checks: list[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "", "found", "to mend it", box=None, pad_edge=False)
    for check in checks:
        state = Text(check.state, STYLES[check.state])
        # Text, not str: what was found is not to be read as markup.
        table.add_row(check.name, state, Text(check.found), Text(check.mend))
    console = Console()
    console.print(table)
    bad = sum(check.state == "fail" for check in checks)
    console.print(
        f"\n{bad} to mend before one can train here." if bad else "\nReady to train here."
    )

"""`harness doctor`: what is ready on this machine, and how to mend what is not."""

import sys
from dataclasses import asdict

import click

from harness.cli.choices import mirror_option
from harness.cli.saying import note, say, say_json
from harness.doctor import examine, ready
from harness.probe import Check
from harness.project import Project
from harness.sources import Mirror
from harness.text import lines

STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option("--environment", help="Import all that an upstream imports in this one, instead.")
@mirror_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list instead of a table.")
@click.pass_obj
def command(
    project: Project, environment: str | None, mirrors: dict[str, Mirror], as_json: bool
) -> None:
    """Say what is ready on this machine and how to mend what is not.

    The exit status is 0 where one can train here and 1 where something must be mended first.
    With --environment (built where it is not), 1 where its upstream imports what is not there.
    """
    if environment is not None:
        sys.exit(_imports(project, environment, mirrors, as_json))
    checks = examine(project)
    if as_json:
        say_json([asdict(check) for check in checks])
    else:
        _show(checks)
    sys.exit(0 if ready(checks) else 1)


def _show(checks: list[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def _text(told: str) -> Text:  # not to be read as markup, nor by the terminal
        return Text(lines(told))

    table = Table("", "", "found", "to mend it", box=None, pad_edge=False)
    for check in checks:
        state = Text(check.state, STYLES[check.state])
        table.add_row(check.name, state, *map(_text, (check.found, check.mend)))
    console = Console()
    console.print(table)
    bad = sum(check.state == "fail" for check in checks)
    console.print(
        f"\n{bad} to mend before one can train here." if bad else "\nReady to train here."
    )


def _imports(project: Project, environment: str, mirrors: dict[str, Mirror], as_json: bool) -> int:
    from harness.imports import check

    found = check(project, environment, mirrors, note)
    failed = sum(one.failed for ones in found.values() for one in ones)
    if as_json:
        say_json({name: [asdict(o) for o in ones] for name, ones in found.items()})
        return int(failed > 0)
    for name, ones in found.items():
        for one in ones:
            if one.error:
                what = f"{one.module} {one.name}".strip()
                state = "is not there, and no training needs it" if one.optional else "FAILS"
                told = f"{name}: {what} {state}: {one.error} ({one.places[0]})"
                say(told)
        modules = {one.module: one.provider for one in ones if not one.error}
        adapted = sorted(name for name, provider in modules.items() if provider == "adapters")
        beside = f", {len(adapted)} of them from adapters: {', '.join(adapted)}" if adapted else ""
        say(f"{name}: {len(modules)} modules import{beside}")
    return int(failed > 0)

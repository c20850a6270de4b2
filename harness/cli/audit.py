"""`harness audit`: check a run folder, or every run below a folder."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.arguments import RUN
from harness.cli.distrust import full_option
from harness.cli.saying import say_json
from harness.project import Project

if TYPE_CHECKING:
    from rich.console import Console

    from harness.audit import Audit

MARKS = {0: ("holds", "green"), 1: ("differs", "red"), 2: ("not all could be checked", "yellow")}


@click.command()
@click.argument("run", type=RUN)
@click.option("--paper", is_flag=True, help="Set what was measured beside published figures.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
@full_option
@click.pass_obj
def command(project: Project, run: Path, paper: bool, as_json: bool) -> None:
    """Check each claim of RUN from its files; of a folder of runs, each run.

    Exit status 0: all hold. 1: something differs. 2: nothing differs, but something could not be
    checked on this machine, so the run is not called good.
    """
    from harness.audit import Machine, audit_all, runs_below
    from harness.audit.trees import record, worst
    from harness.cli.bars import bars
    from harness.cli.figures import show_figures
    from harness.published import of_run

    root = run.resolve()
    runs = runs_below(root)
    with bars() as progress:
        done = [0]

        def told(found: "Audit") -> None:
            done[0] += 1
            progress("runs audited", done[0], len(runs))

        audits = audit_all(Machine(project), runs, told)
    single = runs == [root]
    figures = {found.run: of_run(project, found.run) for found in audits} if paper else {}
    if as_json:
        document = record(audits)
        for entry, found in zip(document["runs"], audits, strict=True):
            if paper:
                entry["paper"] = [one.record() for one in figures[found.run]]
        say_json(document["runs"][0] if single else document)
    else:
        _tell(audits, single)
        for where, comparisons in figures.items():
            show_figures(where.name, comparisons)
    sys.exit(worst({found.exit_code for found in audits}))


def _tell(audits: list["Audit"], single: bool) -> None:
    from rich.console import Console

    console = Console()
    for found in audits:
        if single or found.exit_code:
            _table(console, found, every=single)
    if not single:
        _summary(console, audits)


def _table(console: "Console", found: "Audit", every: bool) -> None:
    """The claims of one run; only those that do not hold unless `every`."""
    from rich.table import Table
    from rich.text import Text

    from harness.audit import Verdict

    colours = {Verdict.HOLDS: "green", Verdict.DIFFERS: "red", Verdict.UNCHECKED: "yellow"}
    table = Table(title=Text(f"audit of {found.record()['run']}"), title_justify="left")
    for column in ("claim", "verdict", "what was found"):
        table.add_column(column, overflow="fold", no_wrap=column == "verdict")
    for claim in found.claims:
        if every or claim.verdict is not Verdict.HOLDS:
            detail = Text(claim.why or claim.found)
            if claim.expected or (claim.verdict is Verdict.DIFFERS and claim.found):
                compared = f"expected {claim.expected}, found {claim.found}\n{claim.why}"
                detail = Text(compared.strip())
            elif claim.verdict is Verdict.HOLDS:
                detail = Text(detail.plain, no_wrap=True, overflow="ellipsis")
            colour = colours[claim.verdict]
            table.add_row(Text(claim.name), Text(claim.verdict.value, colour), detail)
    console.print(table)


def _summary(console: "Console", audits: list["Audit"]) -> None:
    from rich.text import Text

    for found in audits:
        word, colour = MARKS[found.exit_code]
        console.print(Text(f"{found.record()['run']:48} "), Text(word, colour), sep="")
    good = sum(found.exit_code == 0 for found in audits)
    console.print(Text(f"{good} of {len(audits)} runs hold in full"))

"""`harness diff`: what differs between two runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.arguments import RUN, STEPS
from harness.cli.saying import say, say_json
from harness.project import Project

if TYPE_CHECKING:
    from harness.difference import Difference, Series


@click.command()
@click.argument("first", type=RUN)
@click.argument("second", type=RUN)
@click.option(
    "--steps",
    type=STEPS,
    help="Compare measurements up to this step only.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
@click.pass_obj
def command(project: Project, first: Path, second: Path, steps: int | None, as_json: bool) -> None:
    """Compare the runs FIRST and SECOND field by field.

    Exit status 0: equal. 1: something differs. 2: nothing differs, but not all could be compared.
    """
    from harness import checkpoint
    from harness.audit import Machine
    from harness.difference import difference

    def compare(one: Path, two: Path) -> checkpoint.Comparison:
        return checkpoint.compare(project, Machine(project).reader(), one, two)

    show(difference(first.resolve(), second.resolve(), compare, steps), as_json)


def show(found: "Difference", as_json: bool) -> None:
    """Print a comparison, for people or as JSON, and exit with its status."""
    if as_json:
        say_json(found.record())
    else:
        for line in lines(found):
            say(line)
    sys.exit(found.exit_code)


def lines(found: "Difference") -> list[str]:
    """A comparison for people; what is equal is one line a kind."""
    told = [f"{found.record()['first']}  and  {found.record()['second']}"]
    kinds = [("identity", found.identity)]
    if found.tensors is not None or found.untold:
        kinds.append(("results", found.results))
    for title, fields in kinds:
        told.append(f"{title}: {'differs in' if fields else 'equal'}")
        told += [f"  {f.name}: {f.first}  ->  {f.second}" for f in fields]
    told.append(f"configuration: {'differs' if found.configuration else 'equal'}")
    told += [f"  {line}" for line in found.configuration]
    loose = "not bit for bit, so what follows need not be equal"
    told += [f"{line}: {loose}" for line in found.resumed]
    told += [_series(series) for series in found.metrics]
    told += _tensors(found)
    told.append(f"where they ran: {'differs in' if found.facts else 'equal'}")
    told += [f"  {f.name}: {f.first}  ->  {f.second}" for f in found.facts]
    return told


def _series(series: "Series") -> str:
    same = series.compared - series.differing
    line = f"{series.name}: equal at {same} of {series.compared} steps"
    if series.differing:
        most = f"most ({series.largest:.3g}) at {series.largest_step}"
        line += f", first different at {series.first}, {most}"
    return line + (f"; {series.only} steps in one run only" if series.only else "")


def _tensors(found: "Difference") -> list[str]:
    tensors: dict[str, object] | None = found.record()["tensors"]  # type: ignore[assignment]
    if found.untold:
        return [f"tensors: not compared ({found.untold})"]
    if found.tensors is None or tensors is None:
        return []
    if found.tensors.equal:
        return [f"tensors: all {found.tensors.compared} equal, bit for bit"]
    told = [f"tensors: {found.tensors.differing} of {found.tensors.compared} differ"]
    if found.tensors.first is not None:
        told.append(f"  first {tensors['first']}: {found.tensors.elements} elements")
    if found.tensors.largest is not None:
        name = tensors["largest_name"]
        told.append(f"  largest difference {found.tensors.largest:.3g} in {name}")
    for title, names in (("only in the first", "missing"), ("only in the second", "extra")):
        told += [f"  {title}: {name}" for name in tensors[names]]  # type: ignore[attr-defined]
    return told

"""Published figures beside measured ones, as a table on a terminal."""

from collections.abc import Iterable

from harness.papers import Comparison
from harness.text import printable


def show_figures(name: str, comparisons: Iterable[Comparison]) -> None:
    """Print published figures beside a run's; those not comparable for one reason share a line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(f"published figures and {printable(name)}"), title_justify="left")
    for column in ("metric", "published", "measured", "standing", "why, and where it is published"):
        table.add_column(column, overflow="fold")
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault((one.figure.metric, one.standing.value, one.why), []).append(one)
    for (metric, standing, why), ones in groups.items():
        values = sorted(one.figure.value for one in ones)
        span = (
            f"{values[0]:g}" if len(values) == 1 else f"{len(values)}: {values[0]:g}-{values[-1]:g}"
        )
        found = ones[0].measured
        places = ", ".join(dict.fromkeys(f"{o.figure.source} {o.figure.place}" for o in ones))
        told = f"{printable(why)}\n{places}" if why else f"{ones[0].difference:+.1%}\n{places}"
        table.add_row(
            *map(Text, (metric.replace("_", " "), span, "" if found is None else f"{found:.4g}")),
            *map(Text, (standing, told)),
        )
    Console().print(table)

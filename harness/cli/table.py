"""Many launches as a table, shared by the commands that plan them."""

from collections.abc import Sequence

from harness.cli.saying import say, say_json
from harness.matrix import Entry
from harness.text import printable


def show_entries(entries: Sequence[Entry], as_json: bool) -> None:
    """A line a launch, teachers before their students; or all of it as JSON."""
    if as_json:
        say_json([_record(entry) for entry in entries])
        return
    show_table(
        ("recipe", "profile", "seed", "nodes x devices", "steps", "run", "state", "after"),
        [
            (
                f"{plan.recipe.model} {plan.recipe.dataset}",
                plan.recipe.profile,
                str(plan.choices.seed),
                f"{plan.nodes} x {plan.devices}",
                str(plan.recipe.fields["max_steps"]),
                plan.run.name,
                _state(entry),
                ", ".join(run.name for run in entry.after),
            )
            for entry in entries
            for plan in (entry.plan,)
        ],
    )


def show_table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as they must be; the last one is not padded. Cells are made printable."""
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(len(row[i]) for row in (names, *rows)) for i in range(len(names))]
    for row in (names, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        say("  ".join(cells).rstrip())


def _state(entry: Entry) -> str:
    if entry.complete:
        return "complete"
    lacking = [one.name for one in entry.plan.inputs if one.missing and not _made(one.name, entry)]
    return f"lacks {', '.join(lacking)}" if lacking else "ready"


def _made(name: str, entry: Entry) -> bool:
    """Whether the input is what a launch before this one makes."""
    return name.startswith("teacher") and bool(entry.after)


def _record(entry: Entry) -> dict[str, object]:
    return {
        **entry.plan.record(),
        "complete": entry.complete,
        "after": [str(run) for run in entry.after],
    }

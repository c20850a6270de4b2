"""Progress on standard error: bars on a terminal, a line a stage elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.data.progress import Progress
from harness.text import printable

SHOWN = 8  # stages at once: a dataset can have hundreds of files


@contextmanager
def bars(unit: str = "") -> Iterator[Progress]:
    """A Progress that shows one bar a stage while the block runs; `unit` bytes are scaled."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    amount = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        amount,
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, disable=not console.is_terminal) as shown:
        tasks, said = {}, ""

        def report(what: str, done: int, total: int) -> None:
            nonlocal said
            what = printable(what)
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total)
                for old in list(tasks.values())[:-SHOWN]:
                    shown.update(old, visible=False)
            shown.update(tasks[what], completed=done)
            told = what if total == 1 else f"{what}: {done}"
            if not console.is_terminal and done >= total and told != said:
                console.print(told, highlight=False, markup=False)
                said = told

        yield report

"""Text from a completed run's checkpoint, drawn by the trainer's own sampler in the sandbox."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from harness import folder, reuse
from harness.errors import HarnessError, Refused
from harness.files import open_plain
from harness.launch import Launch, ready_launch
from harness.project import Project
from harness.recipes import load
from harness.run import last_line
from harness.supervise import supervise
from harness.trees import scratch


@dataclass(frozen=True)
class Draw:
    """How many rows are drawn, in how many steps of the sampler, from which seed."""

    count: int
    steps: int
    seed: int


@dataclass(frozen=True)
class Row:
    """A drawn row: its tokens, and their text."""

    ids: tuple[int, ...]
    text: str


def sample(project: Project, run: Path, draw: Draw, report: Callable[[str], None]) -> Iterator[Row]:
    """Rows drawn from the checkpoint of the completed run at `run`, by its averaged weights.

    Equal draws of equal checkpoints are equal on equal machines. Raises Refused where the run is
    not whole, today's recipes give another launch, or its trainer has no declared sampler;
    HarnessError where the sampler fails.
    """
    reuse.whole(run)
    trained = reuse.trained(project, run)
    changes = changes_of(project, trained.recipe.source, draw)
    with scratch("harness-sample-") as target:
        (target / folder.OUTPUT).mkdir()
        turned = reuse.turned(trained, run, target, changes)
        yield from _drawn(ready_launch(project, turned, report), report)


def changes_of(project: Project, source: str, draw: Draw) -> dict[str, str]:
    """The overrides that turn a training of `source` into a draw; Refused where none are known."""
    samplers = load(project.source).tables["samplings"]
    if source not in samplers:
        raise Refused(f"sampling: for {', '.join(samplers)}, not for {source}")
    values = {**vars(draw), "checkpoint": reuse.CHECKPOINT}
    return {key: value.format(**values) for key, value in samplers[source].items()}


def _drawn(launch: Launch, report: Callable[[str], None]) -> Iterator[Row]:
    target = launch.plan.run
    report("sampling")
    logs = target / folder.STDOUT, target / folder.STDERR
    status = supervise(launch.box(), list(launch.plan.argv), *logs, lambda: False)
    if status:
        raise HarnessError(f"the sampler ended with status {status}: {last_line(logs[1])}")
    yield from rows(logs[0])


def rows(log: Path) -> Iterator[Row]:
    """The rows that a sampler printed, one a line. Raises HarnessError for a line that is none."""
    with TextIOWrapper(open_plain(log), encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            yield _row(line, number)


def _row(line: str, number: int) -> Row:
    try:
        found: Any = json.loads(line)
        ids, text = found["ids"], found["text"]
        if all(type(token) is int for token in ids) and isinstance(text, str):
            return Row(tuple(ids), text)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise HarnessError(f"the sampler's line {number} is no row: {line[:80]!r}")

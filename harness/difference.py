"""How two runs differ: identity, configuration, measurements, tensors, and where they ran."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import folder, resume
from harness.checkpoint import Comparison
from harness.complete import MAX_MEASURED, METRICS, metric_rows
from harness.errors import HarnessError, Refused
from harness.files import open_plain
from harness.identity import at, differences
from harness.json_files import MAX_JSON
from harness.schemas import read_record
from harness.text import printable, short

Compare = Callable[[Path, Path], Comparison]
_LINES = 40  # of a configuration's difference told


@dataclass(frozen=True)
class Field:
    """A field in which two records differ; both values as short printable text."""

    name: str
    first: str
    second: str


@dataclass(frozen=True)
class Series:
    """How a metric's values differ over the steps both runs tell it of.

    `only` counts steps at which just one run has it; `first` is the first step at which they
    differ, `largest` the largest absolute difference, at `largest_step`.
    """

    name: str
    compared: int
    only: int
    differing: int
    first: int | None
    largest: float
    largest_step: int | None


@dataclass(frozen=True)
class Difference:
    """Two runs compared. `tensors` is None where they were not, and `untold` says why.

    `resumed` names the runs whose training went on from a checkpoint, which the papers' trainers
    do not do bit for bit: then numbers that differ are told, and nothing follows from them.
    """

    first: Path
    second: Path
    identity: tuple[Field, ...]
    configuration: tuple[str, ...]
    results: tuple[Field, ...]
    metrics: tuple[Series, ...]
    tensors: Comparison | None
    untold: str
    facts: tuple[Field, ...]
    resumed: tuple[str, ...] = ()

    @property
    def numbers(self) -> bool:
        """Whether any number that training made differs."""
        series = any(one.differing or one.only for one in self.metrics)
        tensors = self.tensors is not None and not self.tensors.equal
        return bool(self.results) or series or tensors

    @property
    def equal(self) -> bool:
        """Whether nothing that must be equal differs; where they ran does not count."""
        same_step = all(field.name != "step" for field in self.results)
        numbers = same_step if self.resumed else not self.numbers
        return not (self.identity or self.configuration) and numbers

    @property
    def exit_code(self) -> int:
        """0: equal. 1: something differs. 2: nothing differs, but not all could be compared."""
        if not self.equal:
            return 1
        return 2 if self.untold or self.numbers else 0

    def record(self) -> dict[str, object]:
        """The comparison as JSON; its schema is `diff`."""
        return {
            "schema_version": 1,
            "first": printable(self.first.name),
            "second": printable(self.second.name),
            "exit_code": self.exit_code,
            "identity": [asdict(field) for field in self.identity],
            "configuration": list(self.configuration),
            "results": [asdict(field) for field in self.results],
            "metrics": [asdict(series) for series in self.metrics],
            "tensors": _tensors(self.tensors),
            "untold": self.untold,
            "resumed": list(self.resumed),
            "facts": [asdict(field) for field in self.facts],
        }


def difference(first: Path, second: Path, compare: Compare, steps: int | None = None) -> Difference:
    """Compare two runs; `compare` compares the tensors of two checkpoints.

    With `steps`, only what was measured up to that step counts, and no result is compared.
    Raises Refused where a record is absent or malformed.
    """
    runs = (first, second)
    identities = [read_record(run / folder.IDENTITY, "identity") for run in runs]
    results: tuple[Field, ...] = ()
    tensors, untold = None, ""
    if steps is None:
        results = fields(*(_results(run) for run in runs))
        try:
            tensors = compare(first / folder.MODEL, second / folder.MODEL)
        except (HarnessError, OSError) as error:
            untold = printable(f"tensors: {error}")
    return Difference(
        first=first,
        second=second,
        identity=fields(*identities),
        configuration=tuple(_lines(first / folder.CONFIG, second / folder.CONFIG)),
        results=results,
        metrics=tuple(_metrics(first, second, steps)),
        tensors=tensors,
        untold=untold,
        facts=fields(*(facts(run) for run in runs)),
        resumed=tuple(line for run in runs for line in _resumed(run)),
    )


def fields(first: Any, second: Any) -> tuple[Field, ...]:
    """The fields in which two JSON documents differ."""
    return tuple(
        Field(printable(name) or "all of it", short(at(first, name)), short(at(second, name)))
        for name in differences(first, second)
    )


def facts(run: Path) -> dict[str, object]:
    """Where the last attempt of a run was made, as far as it can matter to its numbers."""
    record: Any = read_record(run / folder.PROVENANCE, "provenance")
    identity: Any = read_record(run / folder.IDENTITY, "identity")
    last = record["attempts"][-1]
    told = ("processor", "machine", "cores", "gpus", "driver", "kernel")
    return {
        "base": identity["environment"]["base"],
        "host": {name: last["host"][name] for name in told},
        "tools": last["tools"],
        "harness": record["harness"],
        "attempts": len(record["attempts"]),
    }


def _results(run: Path) -> dict[str, object]:
    record = folder.completed(run)
    checkpoint: Any = record["checkpoint"]
    return {
        "step": checkpoint["step"],
        "tensors": {name: group["digest"] for name, group in checkpoint["tensors"].items()},
        "metrics": record["metrics"],
    }


def _resumed(run: Path) -> Iterator[str]:
    if at := resume.recorded(run):
        yield printable(f"{run.name} went on at {', '.join(map(str, at))}")


def _metrics(first: Path, second: Path, steps: int | None) -> Iterator[Series]:
    one, two = (_series(run, steps) for run in (first, second))
    for name in dict.fromkeys([*one, *two]):
        yield compared(name, one.get(name, {}), two.get(name, {}))


def compared(name: str, one: Mapping[int, float], two: Mapping[int, float]) -> Series:
    """One metric's values, by step, of two runs."""
    both = sorted(one.keys() & two.keys())
    gaps = {step: abs(one[step] - two[step]) for step in both if one[step] != two[step]}
    largest = max(gaps, key=lambda step: gaps[step], default=None)
    return Series(
        name=printable(name),
        compared=len(both),
        only=len(one.keys() ^ two.keys()),
        differing=len(gaps),
        first=min(gaps, default=None),
        largest=0.0 if largest is None else gaps[largest],
        largest_step=largest,
    )


def _series(run: Path, steps: int | None) -> dict[str, dict[int, float]]:
    """Each metric's values by step. Raises Refused where they are too many to be held."""
    found: dict[str, dict[int, float]] = {}
    path, left = run / folder.OUTPUT / METRICS, MAX_MEASURED
    for row in metric_rows(path):
        step = row.get("step")
        if step is None or (steps is not None and step > steps):
            continue
        left -= len(row) - 1
        if left < 0:
            raise Refused(f"{path}: over {MAX_MEASURED} values; compare up to a step with --steps")
        for name, value in row.items():
            if name != "step":
                found.setdefault(name, {})[int(step)] = value
    return found


def _lines(first: Path, second: Path) -> Iterator[str]:
    """The lines in which two small texts differ, marked - and +."""
    texts = []
    for path in (first, second):
        with open_plain(path) as file:
            texts.append(file.read(MAX_JSON).decode(errors="replace").splitlines())
    lines = list(difflib.unified_diff(texts[0], texts[1], n=0, lineterm=""))[2:]
    changed = [printable(line) for line in lines if not line.startswith("@@")]
    yield from changed[:_LINES]
    if len(changed) > _LINES:
        yield f"and {len(changed) - _LINES} more lines"


def _tensors(found: Comparison | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {
        **asdict(found),
        "first": printable(found.first or ""),
        "largest_name": printable(found.largest_name or ""),
        "missing": [printable(name) for name in found.missing],
        "extra": [printable(name) for name in found.extra],
    }

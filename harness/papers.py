"""Published figures set beside what a run measured, where the two can be compared at all."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from harness.errors import Refused
from harness.schemas import read_record
from harness.text import short

# A trainer's own name for what papers call the perplexity bound on held-out text.
MEASURED = {"perplexity_bound": "validation_perplexity"}
# Settings of a figure that the run itself answers; the others are an evaluation's.
_OF_THE_RUN = ("max_steps", "global_batch", "packing")


class Standing(Enum):
    """How a measured value stands to a published one."""

    WITHIN = "within tolerance"
    OUTSIDE = "outside tolerance"
    INCOMPARABLE = "not comparable"


@dataclass(frozen=True)
class Source:
    """A paper or page in one version: where it is, and what of it was read."""

    title: str
    version: str
    url: str
    read: str


@dataclass(frozen=True)
class Figure:
    """One published number; `setting` is all that its source says about how it came about."""

    model: str
    dataset: str
    metric: str
    value: float
    source: str
    place: str
    setting: Mapping[str, Any]
    checked: bool
    entropy: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Measured:
    """A value measured on a run, with the setting of its evaluation (empty: while training)."""

    value: float
    setting: Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """A published figure beside a run's; `difference` is (measured - published) / published."""

    figure: Figure
    measured: float | None
    difference: float | None
    tolerance: float
    standing: Standing
    why: str

    def record(self) -> dict[str, object]:
        """The comparison as JSON."""
        return {
            **asdict(self.figure),
            "setting": dict(self.figure.setting),
            "measured": self.measured,
            "difference": self.difference,
            "tolerance": self.tolerance,
            "standing": self.standing.value,
            "why": self.why,
        }


@dataclass(frozen=True)
class Papers:
    """The parsed `papers.json`."""

    tolerances: Mapping[str, Mapping[str, Any]]
    packing: Mapping[str, str]
    sources: Mapping[str, Source]
    figures: tuple[Figure, ...]

    def of(self, model: str, dataset: str) -> Iterator[Figure]:
        """Every figure of a model on a dataset."""
        return (f for f in self.figures if (f.model, f.dataset) == (model, dataset))

    def compare(
        self, identity: Mapping[str, Any], measured: Mapping[str, Measured]
    ) -> tuple[Comparison, ...]:
        """The figures of a run's model on its dataset beside what was `measured`, by metric."""
        recipe = identity["recipe"]
        here = {
            **recipe["fields"],
            "packing": self.packing.get(recipe["upstream"], self.packing["default"]),
        }
        return tuple(
            self._one(figure, recipe, here, measured.get(figure.metric))
            for figure in self.of(recipe["model"], recipe["dataset"])
        )

    def _one(
        self,
        figure: Figure,
        recipe: Mapping[str, Any],
        here: Mapping[str, Any],
        found: Measured | None,
    ) -> Comparison:
        tolerance = float(self.tolerances[figure.metric]["relative"])
        reasons = list(_reasons(figure, recipe, here, found))
        if found is None:
            return Comparison(
                figure, None, None, tolerance, Standing.INCOMPARABLE, "; ".join(reasons)
            )
        difference = (found.value - figure.value) / figure.value
        standing = Standing.WITHIN if abs(difference) <= tolerance else Standing.OUTSIDE
        if reasons:
            standing = Standing.INCOMPARABLE
        return Comparison(figure, found.value, difference, tolerance, standing, "; ".join(reasons))


def _reasons(
    figure: Figure, recipe: Mapping[str, Any], here: Mapping[str, Any], found: Measured | None
) -> Iterator[str]:
    """Why a figure and a run cannot be compared, most telling first; none where they can."""
    if recipe["profile"] != "paper":
        yield f"the run's profile is {recipe['profile']}"
    if recipe["source"] != recipe["upstream"]:
        yield f"it was trained by the {recipe['source']} source, not {recipe['upstream']}"
    if not figure.checked:
        yield "the figure was not read in its source"
    if found is None:
        yield f"the run has no {figure.metric.replace('_', ' ')}"
    for name, published in figure.setting.items():
        known = here if name in _OF_THE_RUN else (found.setting if found else {})
        value = known.get(name, "unknown")
        if (name in _OF_THE_RUN or found) and value != published:
            yield f"{name.replace('_', ' ')} is {short(value)}, published is {published}"


def load(source: Path) -> Papers:
    """The figures of the harness tree at `source`. Raises Refused where the file is malformed."""
    path = source / "papers.json"
    record: Any = read_record(path, "papers")
    for number, entry in enumerate(record["figures"]):
        for field, table in (("metric", "tolerances"), ("source", "sources")):
            if entry[field] not in record[table]:
                raise Refused(
                    f"{path}: figures/{number}: {field} {entry[field]!r} is not among its {table}"
                )
    return Papers(
        tolerances=record["tolerances"],
        packing=record["packing"],
        sources={name: Source(**entry) for name, entry in record["sources"].items()},
        figures=tuple(Figure(**entry) for entry in record["figures"]),
    )


def while_training(metrics: Mapping[str, float]) -> dict[str, Measured]:
    """What a trainer measured on its own validation set, under the papers' names."""
    return {
        metric: Measured(metrics[name], {}) for metric, name in MEASURED.items() if name in metrics
    }

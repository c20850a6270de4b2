"""Curves of a training, as numbers and as the parts of an SVG drawing."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.complete import MAX_MEASURED
from harness.errors import Refused

WIDTH, HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 10, 30
_MOST = 400  # points drawn; of more, the lowest and highest of each stretch
_HUGE = 1e100  # no measure: nothing so large is drawn

Point = tuple[float, float]


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where, and its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Curve:
    """One metric over steps, laid out in WIDTH x HEIGHT; `line` is an SVG polyline's points."""

    title: str
    first: Point
    last: Point
    lowest: Point
    count: int
    line: str
    dots: tuple[Point, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    level: float | None
    level_label: str


def curve(
    title: str, rows: Iterable[Mapping[str, float]], name: str, level: str | None = None
) -> Curve | None:
    """The curve of metric `name`; with `level`, a line at that metric's last value.

    None where no row has the metric. Raises Refused where its points are too many to be held.
    """
    points: dict[float, float] = {}
    height = None
    for row in rows:
        if all(abs(row.get(one, _HUGE)) < _HUGE for one in ("step", name)):
            points[row["step"]] = row[name]
            if len(points) > MAX_MEASURED:
                raise Refused(f"{title}: over {MAX_MEASURED} points")
        if level is not None and abs(row.get(level, _HUGE)) < _HUGE:
            height = row[level]
    if not points:
        return None
    drawn = thinned(sorted(points.items()))
    values = [y for _, y in drawn] + ([] if height is None else [height])
    x_axis = Axis(drawn[0][0], drawn[-1][0], _LEFT, WIDTH - _RIGHT)
    y_axis = Axis(min(values), max(values), HEIGHT - _BOTTOM, _TOP)
    placed = [(x_axis.place(x), y_axis.place(y)) for x, y in drawn]
    ordered = sorted(points.items())
    return Curve(
        title=title,
        first=ordered[0],
        last=ordered[-1],
        lowest=min(ordered, key=lambda point: point[1]),
        count=len(ordered),
        line=" ".join(f"{x:.1f},{y:.1f}" for x, y in placed),
        dots=tuple(placed) if len(placed) <= 12 else (),
        x_ticks=x_axis.ticks(),
        y_ticks=y_axis.ticks(),
        level=None if height is None else y_axis.place(height),
        level_label="" if height is None or level is None else level.replace("_", " "),
    )


@dataclass(frozen=True)
class Axis:
    """A linear axis: values from `low` to `high` lie from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    @property
    def flat(self) -> bool:
        """Whether all values are one, as far as a drawing can show."""
        return self.high - self.low <= 1e-9 * max(abs(self.low), abs(self.high), 1e-9)

    def place(self, value: float) -> float:
        """Where a value lies; all at the middle where there is only one."""
        if self.flat:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> tuple[Tick, ...]:
        """Some five to ten round values, each where it lies."""
        if self.flat:
            return (Tick(self.place(self.low), f"{self.low:.4g}"),)
        step = _round_step((self.high - self.low) / 8)
        count = math.floor(self.high / step) - math.ceil(self.low / step) + 1
        values = [(math.ceil(self.low / step) + n) * step for n in range(count)]
        return tuple(Tick(self.place(value), f"{value:.6g}") for value in values)


def _round_step(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next((m * power for m in (1, 2, 5) if m * power >= rough), 10 * power)


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most _MOST points: of each stretch, its lowest and highest, so that no spike is lost."""
    if len(points) <= _MOST:
        return list(points)
    kept = [points[0]]
    stretch = math.ceil((len(points) - 2) / (_MOST // 2 - 1))
    for start in range(1, len(points) - 1, stretch):
        part = points[start : min(start + stretch, len(points) - 1)]
        ends = {min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])}
        kept += sorted(ends)
    return [*kept, points[-1]]

"""Two runs compared: equal ones are equal, and each kind of difference is told where it is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import SMOKE, completed_run, environment, reading

from harness import checkpoint
from harness.checkpoint import Comparison
from harness.cli.diff import lines
from harness.difference import Difference, compared, difference, fields
from harness.errors import HarnessError, Refused
from harness.project import Project
from harness.schemas import validate

__all__ = ["reading"]
pytestmark = pytest.mark.usefixtures("reading")


@pytest.fixture
def first(project: Project) -> Path:
    return completed_run(project)


def diff(project: Project, first: Path, second: Path, steps: int | None = None) -> Difference:
    def compare(one: Path, two: Path) -> Comparison:
        return checkpoint.compare(project, environment(project), one, two)

    found = difference(first, second, compare, steps)
    validate(found.record(), "diff", "test")
    assert all(line.isprintable() for line in lines(found))
    return found


def another(project: Project, **changed: object) -> Path:
    """The same launch in another folder."""
    return completed_run(project, replace(SMOKE, name="other"), **changed)  # type: ignore[arg-type]


def test_two_equal_runs(project: Project, first: Path) -> None:
    found = diff(project, first, another(project))
    assert found.equal
    assert (found.exit_code, found.facts) == (0, ())
    assert "tensors: all 2 equal, bit for bit" in lines(found)


def test_other_tensors_are_told(project: Project, first: Path) -> None:
    found = diff(project, first, another(project, weights=(1.0, 2.5, 3.25)))
    assert found.exit_code == 1
    assert {field.name for field in found.results} == {
        "tensors/all", "tensors/ema", "tensors/state",
    }  # fmt: skip
    text = "\n".join(lines(found))
    assert "tensors: 2 of 2 differ" in text
    assert "first ema/shadow_params/0: 2 elements" in text
    assert "largest difference 0.5 in ema/shadow_params/0" in text


def test_other_losses_are_told(project: Project, first: Path) -> None:
    found = diff(project, first, another(project, start=6.25))
    loss = next(series for series in found.metrics if series.name == "loss")
    assert (loss.compared, loss.only, loss.differing, loss.largest) == (10, 0, 10, 0.25)
    assert found.exit_code == 1
    assert next(field for field in found.results).name == "metrics/loss"


def test_up_to_a_step_only_what_was_measured_counts(project: Project, first: Path) -> None:
    other = another(project, weights=(7.0, 7.0, 7.0))
    path = other / "output" / "metrics.jsonl"
    kept = path.read_text().splitlines()[:5]
    path.write_text("\n".join([*kept, '{"step": 260, "loss": 99}']))
    steps = json.loads(kept[-1])["step"]
    assert diff(project, first, other, steps).exit_code == 0
    assert diff(project, first, other).exit_code == 1


def test_another_launch_differs_in_its_identity(project: Project, first: Path) -> None:
    found = diff(project, first, completed_run(project, replace(SMOKE, seed=7)))
    names = {field.name: (field.first, field.second) for field in found.identity}
    assert names["seed"] == ("42", "7")


def test_another_configuration_is_told_line_by_line(project: Project, first: Path) -> None:
    other = another(project)
    (other / "config.yaml").write_bytes(b"seed: 4\x1b[1m\n")
    assert diff(project, first, other).configuration == ("-seed: 42", r"+seed: 4\x1b[1m")


def test_where_they_ran_is_told_but_no_difference(project: Project, first: Path) -> None:
    other = another(project)
    record = json.loads((other / "provenance.json").read_text())
    record["attempts"][-1]["host"] |= {"gpus": ["NVIDIA A"], "driver": "580.1.1"}
    (other / "provenance.json").write_text(json.dumps(record))
    found = diff(project, first, other)
    assert found.equal
    assert {field.name for field in found.facts} == {"host/gpus", "host/driver"}


def test_what_cannot_be_compared_is_not_called_equal(project: Project, first: Path) -> None:
    def compare(one: Path, two: Path) -> Comparison:
        raise HarnessError("no environment\x1b")

    found = difference(first, another(project), compare)
    assert found.exit_code == 2
    assert r"tensors: not compared (tensors: no environment\x1b)" in lines(found)


STEPS = st.dictionaries(st.integers(0, 9), st.floats(-9, 9))


@given(STEPS, STEPS)
def test_a_series_differs_exactly_where_its_values_do(
    one: dict[int, float], two: dict[int, float]
) -> None:
    found = compared("x", one, two)
    assert (found.differing == found.only == 0) == (one == two)
    if found.differing:
        assert found.largest_step is not None
        at = found.largest_step
        assert found.largest == abs(one[at] - two[at]) > 0
        assert found.first is not None
        assert found.first <= at


def test_fields_name_what_differs() -> None:
    (field,) = fields({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]})
    assert (field.name, field.first, field.second) == ("a/1/b", "2", "3")
    (field,) = fields({"a": 1}, {})
    assert field.second == "nothing"


@pytest.mark.parametrize("bound", ["MAX_NAMES", "MAX_MEASURED"])
def test_metrics_beyond_bounds_are_refused_in_a_line(
    project: Project, first: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    rows = [{"step": step, f"name{step}": 1.0, "loss": 2} for step in range(50)]
    other = another(project)
    (other / "output/metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    monkeypatch.setattr(f"harness.complete.{bound}", 40)
    monkeypatch.setattr("harness.difference.MAX_MEASURED", 90 if bound == "MAX_MEASURED" else 1000)
    with pytest.raises(Refused, match=r"metrics.jsonl: (names )?over (40 metrics|90 values)"):
        diff(project, first, other)
    if bound == "MAX_MEASURED":
        diff(project, first, other, steps=20)

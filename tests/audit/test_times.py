"""A clock that was set back is told from a record that was made up."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from run_folders import (
    Here,
    differing,
    relist,
    rewrite,
)

from harness.audit import Verdict, audit


def test_times_of_another_clock_are_allowed_for(here: Here, run: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    rewrite(run / "completed.json", lambda r: r.update(completed=soon))
    assert audit(here, run).exit_code == 0


def back(record: dict[str, Any], what: str, seconds: int) -> None:
    """Set a time of a record back by so many seconds."""
    of = record["attempts"][-1] if "attempts" in record else record
    when = datetime.strptime(of[what], "%Y-%m-%dT%H:%M:%SZ") - timedelta(seconds=seconds)
    of[what] = when.strftime("%Y-%m-%dT%H:%M:%SZ")


SET_BACK = {
    "ended": ("provenance.json", "provenance.json: attempt 1 ended"),
    "completed": ("completed.json", "completed.json: completed"),
}


@pytest.mark.parametrize("what", SET_BACK)
def test_a_clock_that_was_set_back_far_leaves_the_times_unchecked(
    here: Here, run: Path, what: str
) -> None:
    name, told = SET_BACK[what]
    rewrite(run / name, lambda r: back(r, what, 86_400))
    relist(run)
    found = audit(here, run)
    assert found.exit_code == 2, differing(found)
    (claim,) = [c for c in found.claims if c.verdict is Verdict.UNCHECKED]
    assert claim.name == "order of times"
    assert told in claim.why
    assert "set back, or the record was made up" in claim.why
    # It excuses nothing else.
    later = datetime.now(UTC).timestamp() + 86_400
    os.utime(run / "stdout.log", (later, later))
    assert "stdout.log is dated" in differing(audit(here, run))


def test_a_clock_that_was_set_right_by_seconds_is_remarked(here: Here, run: Path) -> None:
    rewrite(run / "provenance.json", lambda r: back(r, "ended", 37))
    relist(run)
    found = audit(here, run)
    assert found.exit_code == 0, differing(found)
    (claim,) = [c for c in found.claims if c.name == "order of times"]
    assert "set back by 3" in claim.found


def test_a_time_to_come_differs_also_where_the_clock_was_set_back(here: Here, run: Path) -> None:
    rewrite(run / "provenance.json", lambda r: r["attempts"][-1].update(
        started="2999-01-01T00:00:00Z"))  # fmt: skip
    relist(run)
    told = differing(audit(here, run))
    assert "attempt 1 started 2999-01-01T00:00:00Z, later than now" in told
    assert "before provenance.json: attempt 1 started" in told

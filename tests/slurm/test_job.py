"""A node's part in a job: what goes wrong is one line, and the other nodes are told."""

import errno
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import HarnessError, Refused
from harness.plan import Choices
from harness.project import Project
from harness.run import TrainingFailed
from harness.slurm import job
from harness.slurm.job import Asked, Job
from harness.slurm.meeting import Place

SOURCE = Path(__file__).parents[2]
SMOKE = Choices("mdlm", "lm1b", profile="smoke")


@pytest.fixture
def one(tmp_path: Path) -> Job:
    return Job(Project(source=SOURCE, root=tmp_path), SMOKE, "1" * 64, None)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, "7", 0, ("a", "b"), 1)


def ready(monkeypatch: pytest.MonkeyPatch, result: Any) -> None:
    def found(*args: object) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(job, "ready_launch", found)


def test_a_launch_that_is_not_the_submitted_one_is_refused(
    one: Job, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(monkeypatch, SimpleNamespace(identity=SimpleNamespace(sha256="2" * 64)))
    ended = one._try(place, Asked())
    assert isinstance(ended, Refused)
    assert str(ended).startswith(
        "b: the launch is not the one submitted (identity 222222222222, submitted as 1111"
    )
    told = place.trouble()
    assert told is not None and told.exit_code == 2


def test_a_full_disk_is_one_line(one: Job, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ready(monkeypatch, OSError(errno.ENOSPC, "No space left on device", "/x"))
    ended = one._try(place, Asked())
    assert isinstance(ended, HarnessError)
    assert str(ended) == "/x: No space left on device"
    assert str(place.trouble()) == "node b: /x: No space left on device"


def test_an_interruption_is_no_trouble(
    one: Job, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(monkeypatch, TrainingFailed("interrupted", 143))
    one._try(place, Asked())
    assert place.trouble() is None
    assert place.file("ended1").exists()


def test_what_is_put_back_is_the_same_job(one: Job) -> None:
    pytest.importorskip("submitit")
    assert one.checkpoint().function == one  # type: ignore[attr-defined]


def test_a_signal_is_noted() -> None:
    asked, before = Asked(), signal.getsignal(signal.SIGUSR2)
    try:
        asked.listen(signal.SIGUSR2)
        assert not asked()
        os.kill(os.getpid(), signal.SIGUSR2)
        assert asked()
    finally:
        signal.signal(signal.SIGUSR2, before)

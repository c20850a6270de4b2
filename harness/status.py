"""What every run of a root is doing, from files alone: no scheduler and no process is asked."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harness import folder
from harness.errors import HarnessError
from harness.project import Project
from harness.run import INTERRUPTED, PROGRESS, Progress, read_progress
from harness.schemas import read_record
from harness.slurm import files
from harness.slurm.files import Submission

LOCKS = Path("/proc/locks")  # proc_locks(5)
CANCELLED = "cancelled"
UNREADABLE = "unreadable"
SILENT_SECONDS = 600.0  # a validation may take minutes, in which a trainer tells nothing


@dataclass(frozen=True)
class Status:
    """One run: what it does, how far it is, where, and the last job that was to train it."""

    run: Path
    state: str
    step: int | None = None
    max_steps: int | None = None
    tokens_per_second: float | None = None
    seconds_left: float | None = None
    heard_seconds: float | None = None
    node: str | None = None
    job: str | None = None
    note: str | None = None

    def record(self) -> dict[str, object]:
        """As JSON."""
        return {**asdict(self), "run": str(self.run)}


def statuses(project: Project) -> list[Status]:
    """Every run folder and every submitted launch of the root, in the order of names."""
    faults: list[Status] = []

    def fault(path: Path, error: HarnessError) -> None:
        faults.append(Status(path, UNREADABLE, note=str(error)))

    jobs = {one.run: one for one in files.submissions(project, fault)}  # the last of a run counts
    runs = {*_folders(project.runs), *jobs}
    return [*(status(project, run, jobs.get(run)) for run in sorted(runs)), *faults]


def status(project: Project, run: Path, job: Submission | None) -> Status:
    """One run's status."""
    found = _attempted(run)
    if job is None:
        return found
    try:
        return _submitted(project, found, job)
    except (HarnessError, OSError) as error:
        return replace(found, state=UNREADABLE, note=str(error), job=job.job)


def _folders(runs: Path) -> Iterator[Path]:
    if runs.is_dir():
        for path in runs.iterdir():
            if path.is_dir() and not path.is_symlink():
                yield path


def _attempted(run: Path) -> Status:
    """What the run folder says."""
    path = run / folder.OUTPUT / PROGRESS
    progress = read_progress(path)
    try:
        if not (run / folder.IDENTITY).exists():
            return Status(run, "empty" if run.is_dir() else "absent")
        if not (run / folder.PROVENANCE).exists():
            return Status(run, "running" if _held(run) else "interrupted")
        record: Any = read_record(run / folder.PROVENANCE, "provenance")
        last = record["attempts"][-1]
        node = ",".join(_nodes(last))
        heard = _heard(path, last["started"])
        state, note = _state(run, last, heard)
    except (HarnessError, OSError, ValueError) as error:  # a time may be no time
        return Status(run, UNREADABLE, note=str(error))
    if progress is None:
        return Status(run, state, heard_seconds=heard, node=node, note=note)
    return Status(run, state, heard_seconds=heard, node=node, note=note, **_told(progress, state))


def _told(progress: Progress, state: str) -> dict[str, Any]:
    moving = state == "running"
    return {
        "step": progress.step,
        "max_steps": progress.max_steps,
        "tokens_per_second": progress.tokens_per_second if moving else None,
        "seconds_left": progress.seconds_left if moving else None,
    }


def _state(run: Path, last: Any, heard: float) -> tuple[str, str | None]:
    if (run / folder.COMPLETED).exists():
        folder.completed(run)  # raises where it is not what was written
        return "complete", None
    ended = last["status"]
    if ended is None:
        if _held(run):
            return "running", None
        if heard < SILENT_SECONDS and last["host"]["name"] != _here():
            return "running", None
        return "silent", "ended without a word, or its machine did; the same command goes on"
    if ended == 0:
        return ("running", "checking the result") if _held(run) else ("interrupted", None)
    if ended in INTERRUPTED:
        return "interrupted", None
    return "failed", f"status {ended}"


def _submitted(project: Project, found: Status, job: Submission) -> Status:
    """The run's status in the light of the job that was to train it."""
    outcome = files.outcome(project, job.job)
    state, note = found.state, found.note
    if outcome is None:
        if found.state not in ("complete", "running", UNREADABLE):
            state, note = _before(found, job)
    elif outcome.requeued and found.state != "running":
        state, note = "queued", "goes on from its last checkpoint"
    elif outcome.status and found.state not in ("complete", "running"):
        state = "cancelled" if outcome.message == CANCELLED else "failed"
        note = outcome.message
    return replace(found, state=state, note=note, job=job.job)


def _before(found: Status, job: Submission) -> tuple[str, str | None]:
    """A job that told nothing yet: it waits, or it ended without a word."""
    if found.state in ("absent", "empty"):
        return "queued", f"after {', '.join(job.after)}" if job.after else None
    return found.state, found.note


def _nodes(attempt: Any) -> list[str]:
    site = attempt.get("site")
    return [attempt["host"]["name"]] if site is None else [one["name"] for one in site["nodes"]]


def _heard(path: Path, started: str) -> float:
    """Seconds since the trainer told its progress, or since it was started."""
    since = datetime.fromisoformat(started).timestamp()
    with suppress(OSError):
        since = max(since, path.lstat().st_mtime)
    return max(0.0, time.time() - since)


def _held(run: Path) -> bool:
    """Whether a launch on this machine holds the run folder.

    The kernel's list is read: to try the lock would keep a launch from it that starts just now.
    """
    try:
        inode = str((run / folder.LOCK).lstat().st_ino)
        held = LOCKS.read_text().splitlines()
    except OSError:
        return False
    words = [line.split() for line in held]
    return any(w[1] == "FLOCK" and w[5].rpartition(":")[2] == inode for w in words if len(w) > 5)


def _here() -> str:
    return os.uname().nodename

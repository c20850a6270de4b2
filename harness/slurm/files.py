"""What the jobs of a root leave for readers: small records, a kind a name, in one flat folder.

    <job>.submission.json       by `submit`: what the job is to run
    <job>.outcome.json          by its first node: how it ended, or that it waits again
    <job>.<restarts>.*.json     by its nodes, for each other (see meeting.py)

submitit's own files, the jobs' logs among them, lie beside.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, Refused
from harness.json_files import publish_json
from harness.project import Project
from harness.schemas import read_record

JOB = re.compile(r"[0-9]+(?:_[0-9]+)?")
# Is told of a record that is none; the others go on, unless it raises.
Fault = Callable[[Path, HarnessError], None]


def refuse(path: Path, error: HarnessError) -> None:
    """The fault that lets nothing go on."""
    raise error


def folder(project: Project) -> Path:
    """Where they lie; every node of the cluster must see it."""
    return project.root / "slurm"


@dataclass(frozen=True)
class Submission:
    """A job that was submitted: its run folder, identity (None: its teacher is not there yet)."""

    job: str
    run: Path
    identity: str | None
    model: str
    dataset: str
    seed: int
    nodes: int
    gpus_per_node: int
    after: tuple[str, ...]
    submitted: str

    def publish(self, project: Project) -> None:
        """Write the record."""
        plain = {"run": str(self.run), "after": list(self.after)}
        record = {"schema_version": 1, **asdict(self), **plain}
        publish_json(folder(project) / f"{self.job}.submission.json", record)


@dataclass(frozen=True)
class Outcome:
    """How a job ended: exit status, one line of why; `requeued` where it will run again."""

    status: int
    message: str | None
    requeued: bool
    ended: str

    def publish(self, project: Project, job: str) -> None:
        """Write the record."""
        record = {"schema_version": 1, **asdict(self)}
        publish_json(folder(project) / f"{job}.outcome.json", record)


def submissions(project: Project, fault: Fault = refuse) -> Iterator[Submission]:
    """Every job submitted from this root, oldest first."""
    for path in sorted(folder(project).glob("*.submission.json"), key=_number):
        try:
            yield _submission(path)
        except HarnessError as error:
            fault(path, error)


def _submission(path: Path) -> Submission:
    record: dict[str, Any] = read_record(path, "submission")
    if path.name != f"{record['job']}.submission.json":
        raise Refused(f"{path}: says that it is of job {record['job'][:40]}")
    del record["schema_version"]
    return Submission(**{**record, "run": Path(record["run"]), "after": tuple(record["after"])})


def unfinished(project: Project, fault: Fault = refuse) -> Iterator[Submission]:
    """Those whose jobs have not said that they ended for good; one that cannot be read has not."""
    for one in submissions(project, fault):
        ended = None
        try:
            ended = outcome(project, one.job)
        except HarnessError as error:
            fault(_outcome(project, one.job), error)
        if ended is None or ended.requeued:
            yield one


def outcome(project: Project, job: str) -> Outcome | None:
    """How `job` ended, where it did."""
    path = _outcome(project, job)
    if not path.exists():
        return None
    record: dict[str, Any] = read_record(path, "outcome")
    del record["schema_version"]
    return Outcome(**record)


def forget(project: Project, job: str) -> None:
    """A job that runs again has not ended."""
    _outcome(project, job).unlink(missing_ok=True)


def logs(project: Project, job: str) -> list[Path]:
    """What the tasks of `job` said, and the trainers of its nodes but the first."""
    kinds = re.compile(rf"{job}_\d+_log\.(out|err)|{job}\.node\d+\.(stdout|stderr)\.log")
    return sorted(path for path in folder(project).iterdir() if kinds.fullmatch(path.name))


def _outcome(project: Project, job: str) -> Path:
    return folder(project) / f"{job}.outcome.json"


def _number(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", path.name.partition(".")[0]))

"""The jobs of a root are known by small records, checked when they are read."""

from pathlib import Path

import pytest

from harness.errors import Refused
from harness.json_files import publish_json
from harness.project import Project
from harness.slurm import files
from harness.slurm.files import Outcome, Submission

TIME = "2026-01-01T00:00:00Z"


def submission(project: Project, job: str, run: str) -> Submission:
    return Submission(
        job=job, run=project.runs / run, identity="1" * 64, model="mdlm", dataset="lm1b", seed=1,
        nodes=2, gpus_per_node=8, after=("3",), submitted=TIME,
    )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "slurm").mkdir()
    return Project(source=Path(__file__).parents[2], root=tmp_path)


def test_submissions_are_read_as_written_oldest_first(project: Project) -> None:
    made = [submission(project, job, "a") for job in ("9", "10_0", "10_2", "10_11", "100")]
    for one in reversed(made):
        one.publish(project)
    assert list(files.submissions(project)) == made


def test_a_root_without_jobs_has_none(tmp_path: Path) -> None:
    assert list(files.submissions(Project(source=tmp_path, root=tmp_path))) == []


def test_an_outcome_is_read_as_written_and_forgotten(project: Project) -> None:
    assert files.outcome(project, "7") is None
    made = Outcome(143, "interrupted", True, TIME)
    made.publish(project, "7")
    assert files.outcome(project, "7") == made
    files.forget(project, "7")
    files.forget(project, "7")
    assert files.outcome(project, "7") is None


def test_a_job_is_unfinished_until_it_ended_for_good(project: Project) -> None:
    for job in ("7", "8", "9"):
        submission(project, job, "a").publish(project)
    Outcome(0, None, False, TIME).publish(project, "7")
    Outcome(143, "interrupted", True, TIME).publish(project, "8")
    assert [one.job for one in files.unfinished(project)] == ["8", "9"]


def test_a_record_that_is_none_is_refused(project: Project) -> None:
    publish_json(project.root / "slurm/7.submission.json", {"schema_version": 1})
    with pytest.raises(Refused, match="schema submission"):
        list(files.submissions(project))


def test_the_logs_of_a_job_are_its_own(project: Project) -> None:
    mine = ["7.node1.stderr.log", "7.node1.stdout.log", "7_0_log.err", "7_0_log.out", "7_1_log.err"]
    for name in (*mine, "7_1_0_log.out", "17_0_log.out", "7_submission.sh", "7.0.member1.json"):
        (project.root / "slurm" / name).write_text("")
    assert [path.name for path in files.logs(project, "7")] == mine
    assert [path.name for path in files.logs(project, "7_1")] == ["7_1_0_log.out"]

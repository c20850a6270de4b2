"""What a run is doing is read from files alone, whatever state they are in."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from run_folders import launch

from harness import folder, status
from harness.cli.main import group
from harness.json_files import json_bytes
from harness.plan import Choices
from harness.project import Project
from harness.provenance import begin, end
from harness.slurm.files import Outcome, Submission
from harness.status import statuses

TIME = "2026-01-01T00:00:00Z"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "slurm").mkdir()
    return Project(source=Path(__file__).parents[1], root=tmp_path)


@pytest.fixture
def run(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was begun, and has told its progress just now."""
    monkeypatch.setattr("harness.sandbox.version", lambda: "0.8.0")
    made = launch(project, Choices("mdlm", "lm1b", profile="smoke"))
    run = made.plan.run
    (run / "output").mkdir(parents=True)
    (run / folder.LOCK).write_text("")
    (run / folder.IDENTITY).write_bytes(json_bytes(made.identity.document))
    begin(run, made)
    tell(run, step=10)
    return run


def tell(run: Path, step: int) -> None:
    told = {"step": step, "max_steps": 40, "tokens_per_second": 2000.0, "seconds_left": 3.0}
    (run / "output/progress.json").write_text(json.dumps(told))


def record(run: Path) -> Any:
    return json.loads((run / folder.PROVENANCE).read_text())


def only(project: Project) -> status.Status:
    (found,) = statuses(project)
    return found


def submitted(project: Project, run: Path, job: str = "7", after: tuple[str, ...] = ()) -> None:
    Submission(
        job=job, run=run, identity=None, model="mdlm", dataset="lm1b", seed=42, nodes=1,
        gpus_per_node=1, after=after, submitted=TIME,
    ).publish(project)  # fmt: skip


def test_a_root_without_runs_has_none(tmp_path: Path) -> None:
    assert statuses(Project(source=tmp_path, root=tmp_path)) == []


def test_a_run_whose_folder_is_held_is_running(project: Project, run: Path) -> None:
    with folder.locked(run):
        found = only(project)
    assert (found.state, found.step, found.max_steps) == ("running", 10, 40)
    assert (found.tokens_per_second, found.seconds_left) == (2000.0, 3.0)
    assert found.node == record(run)["attempts"][0]["host"]["name"]


def test_a_run_that_nobody_holds_here_is_silent(project: Project, run: Path) -> None:
    found = only(project)
    assert (found.state, found.step, found.seconds_left) == ("silent", 10, None)


def test_a_run_elsewhere_runs_while_it_is_heard(
    project: Project, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "_here", lambda: "elsewhere")
    assert only(project).state == "running"
    long_ago = time.time() - status.SILENT_SECONDS - 1
    os.utime(run / "output/progress.json", (long_ago, long_ago))
    begun = record(run)
    begun["attempts"][0]["started"] = TIME
    (run / folder.PROVENANCE).write_text(json.dumps(begun))
    assert only(project).state == "silent"


@pytest.mark.parametrize(
    ("ended", "state", "note"),
    [(143, "interrupted", None), (1, "failed", "status 1"), (0, "interrupted", None)],
)
def test_how_an_attempt_ended(
    project: Project, run: Path, ended: int, state: str, note: str | None
) -> None:
    end(run, record(run), ended)
    assert (only(project).state, only(project).note) == (state, note)


def test_a_completion_that_was_altered_is_not_called_complete(project: Project, run: Path) -> None:
    end(run, record(run), 0)
    (run / folder.COMPLETED).write_text("{}")
    assert only(project).state == "unreadable"


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense"])
def test_records_that_are_none_are_unreadable(project: Project, run: Path, text: str) -> None:
    (run / folder.PROVENANCE).write_text(text)
    found = only(project)
    assert found.state == "unreadable"
    assert folder.PROVENANCE in (found.note or "")


def test_a_submitted_launch_waits(project: Project) -> None:
    submitted(project, project.runs / "a")
    submitted(project, project.runs / "b", job="8", after=("7",))
    first, second = statuses(project)
    assert (first.state, first.job, first.note) == ("queued", "7", None)
    assert (second.state, second.job, second.note) == ("queued", "8", "after 7")


def test_a_job_that_was_put_back_waits(project: Project, run: Path) -> None:
    end(run, record(run), 143)
    submitted(project, run)
    Outcome(143, "interrupted", True, TIME).publish(project, "7")
    assert (only(project).state, only(project).step) == ("queued", 10)


def test_a_job_that_was_refused_says_why(project: Project) -> None:
    submitted(project, project.runs / "a")
    Outcome(2, "data: missing", False, TIME).publish(project, "7")
    assert (only(project).state, only(project).note) == ("failed", "data: missing")


def test_a_cancelled_job_is_cancelled(project: Project, run: Path) -> None:
    end(run, record(run), 143)
    submitted(project, run)
    Outcome(143, status.CANCELLED, False, TIME).publish(project, "7")
    assert only(project).state == "cancelled"


def test_the_last_job_of_a_run_counts(project: Project) -> None:
    submitted(project, project.runs / "a", job="7")
    submitted(project, project.runs / "a", job="12")
    Outcome(2, "earlier", False, TIME).publish(project, "7")
    assert (only(project).state, only(project).job) == ("queued", "12")


def test_a_link_in_the_place_of_a_run_is_not_followed(project: Project, tmp_path: Path) -> None:
    project.runs.mkdir()
    (project.runs / "link").symlink_to(tmp_path)
    assert statuses(project) == []


def test_every_status_is_json(project: Project, run: Path) -> None:
    submitted(project, run)
    json.dumps([one.record() for one in statuses(project)], allow_nan=False)


NONSENSE = [
    lambda r: r["attempts"][0].update(started="2026-99-99T00:00:00Z"),
    lambda r: r["attempts"][0].update(started="2026-01-01T00:00:00Z\n"),
    lambda r: r["attempts"][0].update(started="0000-01-01T00:00:00Z"),
    lambda r: r["attempts"][0].update(status=1.0),
]


@pytest.mark.parametrize("change", NONSENSE)
def test_nonsense_in_one_run_is_its_own_row(project: Project, run: Path, change: Any) -> None:
    (project.runs / "other").mkdir()
    value = record(run)
    change(value)
    (run / folder.PROVENANCE).write_text(json.dumps(value))
    found = {one.run.name: one for one in statuses(project)}
    assert found["other"].state == "empty"
    assert found[run.name].state == "unreadable"
    assert folder.PROVENANCE in (found[run.name].note or "")


@pytest.mark.parametrize("name", ["7.submission.json", "7.outcome.json"])
@pytest.mark.parametrize("text", ["", "[]", "[" * 2000, '{"job": 7}'])
def test_a_jobs_bad_record_is_a_row_of_its_own(project: Project, name: str, text: str) -> None:
    submitted(project, project.runs / "a", job="7")
    submitted(project, project.runs / "b", job="8")
    (project.root / "slurm" / name).write_text(text)
    states = {one.state: one for one in statuses(project)}
    assert states["queued"].run.name == "b"
    assert name in (states["unreadable"].note or "")


def test_a_submission_that_names_another_job_is_unreadable(project: Project) -> None:
    submitted(project, project.runs / "a", job="7")
    slurm = project.root / "slurm"
    (slurm / "7.submission.json").rename(slurm / "9.submission.json")
    assert [one.state for one in statuses(project)] == ["unreadable"]


def test_a_step_is_no_truth_value(project: Project, run: Path) -> None:
    (run / "output/progress.json").write_text('{"step": true, "max_steps": 8}')
    assert only(project).step is None


def test_no_cell_pushes_the_others_aside(project: Project, run: Path) -> None:
    value = record(run)
    value["attempts"][0]["host"]["name"] = "\x1bn" * 5000
    (run / folder.PROVENANCE).write_text(json.dumps(value))
    shown = CliRunner().invoke(group, ["--root", str(project.root), "status"])
    assert shown.exit_code == 0
    assert max(map(len, shown.output.splitlines())) < 600


@pytest.mark.parametrize("words", [["status"], ["logs", "b"], ["cancel", "b"]])
def test_one_bad_submission_is_named_and_the_others_go_on(
    project: Project, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    submitted(project, project.runs / "b", job="8")
    for name in ("7.submission.json", "9.submission.json"):
        (project.root / "slurm" / name).write_text("nonsense")
    monkeypatch.setattr("harness.slurm.commands.alive", set)
    monkeypatch.setattr("harness.slurm.commands.cancel", lambda jobs: None)
    done = CliRunner().invoke(group, ["--root", str(project.root), *words])
    assert done.exit_code == 0, done.output
    assert done.output.count("7.submission.json") >= 1
    assert done.output.count("9.submission.json") >= 1

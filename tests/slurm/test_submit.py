"""Launches become jobs in the right order, equal ones together, and none twice."""

from pathlib import Path
from typing import Any

import pytest

from harness.matrix import Entry, entries
from harness.plan import Choices
from harness.project import Project
from harness.slurm import commands, submit
from harness.slurm.files import Outcome, Submission
from harness.slurm.resources import Resources

SOURCE = Path(__file__).parents[2]
TEN = Resources(time="10")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(commands, "available", lambda: None)
    monkeypatch.setattr(commands, "alive", set)
    monkeypatch.setattr(submit, "_python", lambda project: "python")
    return Project(source=SOURCE, root=tmp_path)


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], tuple[str, ...]]]:
    """What is put into the queue together: names of runs, and the jobs they wait for."""
    made: list[tuple[list[str], tuple[str, ...]]] = []

    def put(project: Any, group: list[Entry], after: tuple[str, ...], *rest: Any) -> list[str]:
        made.append(([entry.plan.run.name for entry in group], after))
        return [f"{len(made)}_{index}" for index in range(len(group))]

    monkeypatch.setattr(submit, "_put", put)
    return made


def table(project: Project, *launches: tuple[str, int]) -> list[Entry]:
    return entries(
        project, [Choices(model, "lm1b", profile="smoke", seed=seed) for model, seed in launches]
    )


def test_students_wait_for_the_jobs_of_their_own_teachers(
    project: Project, groups: list[tuple[list[str], tuple[str, ...]]]
) -> None:
    asked = table(project, ("mdlm_sdtt", 1), ("duo_dcd", 1), ("mdlm_sdtt", 2), ("mdlm_di4c", 2))
    found = submit.submit(project, asked, {}, TEN)
    teachers = ["mdlm-lm1b-smoke-seed1", "duo-lm1b-smoke-seed1", "mdlm-lm1b-smoke-seed2"]
    assert groups == [
        (teachers, ()),
        (["mdlm_sdtt-lm1b-smoke-seed1"], ("1_0",)),
        (["duo_dcd-lm1b-smoke-seed1"], ("1_1",)),
        (["mdlm_sdtt-lm1b-smoke-seed2", "mdlm_di4c-lm1b-smoke-seed2"], ("1_2",)),
    ]
    assert {one.state for one in found} == {"submitted"}
    assert [one.job for one in found] == ["1_0", "2_0", "1_1", "3_0", "1_2", "4_0", "4_1"]


def test_launches_that_ask_for_other_nodes_are_no_array(
    project: Project, groups: list[tuple[list[str], tuple[str, ...]]]
) -> None:
    one, two = (
        Choices("mdlm", "lm1b", profile="smoke", seed=n, nodes=n, per_device_batch=8)
        for n in (1, 2)
    )
    submit.submit(project, entries(project, [one, two]), {}, TEN)
    assert [len(names) for names, _ in groups] == [1, 1]


def test_what_is_complete_or_waits_is_not_submitted_again(
    project: Project,
    groups: list[tuple[list[str], tuple[str, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = table(project, ("mdlm_sdtt", 1), ("mdlm_sdtt", 2), ("duo", 3))
    complete, _, waiting, _, lone = (entry.plan.run for entry in asked)
    complete.mkdir(parents=True)
    (complete / "completed.json").write_text("{}")
    (project.root / "slurm").mkdir()
    for job, run in (("70", waiting), ("71", lone), ("72", lone)):
        Submission(
            job=job, run=run, identity=None, model="mdlm", dataset="lm1b", seed=2, nodes=1,
            gpus_per_node=1, after=(), submitted="2026-01-01T00:00:00Z",
        ).publish(project)  # fmt: skip
    Outcome(1, "failed", False, "2026-01-01T00:00:00Z").publish(project, "72")
    monkeypatch.setattr(commands, "alive", lambda jobs: {"70"} & set(jobs))
    found = submit.submit(project, asked, {}, TEN)
    assert [one.state for one in found] == [
        "complete", "submitted", "waiting", "submitted", "submitted",
    ]  # fmt: skip
    assert groups == [
        (["mdlm_sdtt-lm1b-smoke-seed1", "duo-lm1b-smoke-seed3"], ()),  # its teacher is there
        (["mdlm_sdtt-lm1b-smoke-seed2"], ("70",)),
    ]


def test_slurms_reason_is_one_line() -> None:
    said = "sbatch: warning: x\nsbatch: error: invalid partition specified: y\nTraceback"
    assert submit._reason(said) == "sbatch: error: invalid partition specified: y"
    assert "\n" not in submit._reason("one\ntwo")

"""Evaluations: of whole runs only, with an identity linked to the run's, told once."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from run_folders import CONFIG, SMOKE, SOURCE, completed_run, data, environment, reading

from harness import evaluation, launch, places, reuse
from harness.errors import HarnessError, Refused
from harness.evaluation import evaluate, evaluations, measured, ready
from harness.launch import Launch
from harness.papers import Measured
from harness.plan import Choices, plan
from harness.project import Project
from harness.published import of_run
from harness.recipes import load
from harness.schemas import validate

__all__ = ["reading"]
pytestmark = pytest.mark.usefixtures("reading")
NAME = "validation-perplexity"
Trainer = Callable[[Launch, float | None, int], None]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(source=SOURCE, root=tmp_path / "root")


@pytest.fixture
def run(project: Project) -> Path:
    return completed_run(project)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    """A machine that has environment and data, and composes without a sandbox."""
    monkeypatch.setattr(launch, "realise", lambda project, name: environment(project))
    monkeypatch.setattr("harness.data.ready.inputs", lambda *_: data())
    monkeypatch.setattr(launch, "compose", lambda *_: CONFIG)
    monkeypatch.setattr("harness.plan.missing", lambda *_: [])
    monkeypatch.setattr(Launch, "box", lambda self: None)


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Trainer:
    """What an evaluation leaves: a value, or nothing, and a status."""

    def make(ready: Launch, value: float | None = 77.5, status: int = 0) -> None:
        def supervise(box: object, argv: list[str], out: Path, err: Path, poll: object) -> int:
            assert argv == list(ready.plan.argv)
            for log in (out, err):
                log.write_text("a line\n")
            row = {"step": 500} if value is None else {"step": 500, "validation_perplexity": value}
            (ready.plan.run / "output" / "metrics.jsonl").write_text(json.dumps(row) + "\n")
            return status

        monkeypatch.setattr(evaluation, "supervise", supervise)

    return make


def nothing(line: str) -> None:
    pass


def test_every_evaluation_fits_a_recipe() -> None:
    catalogue = load(SOURCE)
    project = Project(SOURCE, SOURCE)
    for entry in evaluations(project).values():
        assert set(entry.sources) <= {"builtin", *catalogue.tables["sources"]}
        assert any("{checkpoint}" in override for override in entry.append)


def test_the_launch_is_the_runs_with_the_declared_changes(project: Project, run: Path) -> None:
    trained = plan(project, SMOKE)
    made = ready(project, run, NAME, nothing)
    changes = {"mode": "ppl_eval", "checkpointing.resume_from_ckpt": "false"}
    expected = [
        f"{key}={changes.get(key, value)}"
        for key, _, value in (word.partition("=") for word in trained.overrides)
    ]
    expected.append(f"eval.checkpoint_path={reuse.CHECKPOINT}")
    assert list(made.plan.argv) == [*trained.argv[:2], *expected]
    mounts = {mount.target: mount for mount in made.plan.mounts}
    assert mounts[reuse.CHECKPOINT].source == run / "model.ckpt"
    assert [m.target for m in made.plan.mounts if m.writable] == [places.OUTPUT]
    assert mounts[places.OUTPUT].source.parent == made.plan.run
    assert not made.plan.run.is_relative_to(project.runs)


def test_a_result_is_linked_to_its_run_and_told_once(
    project: Project, run: Path, trainer: Trainer
) -> None:
    before = sorted(run.rglob("*"))
    made = ready(project, run, NAME, nothing)
    trainer(made, 77.5, 0)
    first = evaluate(made)
    assert (first.record["value"], first.skipped) == (77.5, False)
    identity = json.loads((first.folder / "identity.json").read_text())
    validate(identity, "evaluation", "test")
    validate(identity["launch"], "identity", "test")
    completed = json.loads((run / "completed.json").read_text())
    assert identity["run"]["identity_sha256"] == completed["identity_sha256"]
    trainer(made, 99.0, 1)
    assert evaluate(ready(project, run, NAME, nothing)).record == first.record
    assert sorted(run.rglob("*")) == before
    assert measured(project, run) == {"perplexity_bound": Measured(77.5, {})}
    assert {one.measured for one in of_run(project, run)} == {77.5, None}


def test_another_checkpoint_is_another_evaluation(
    project: Project, run: Path, trainer: Trainer
) -> None:
    made = ready(project, run, NAME, nothing)
    trainer(made, 77.5, 0)
    evaluate(made)
    other = completed_run(project, replace(SMOKE, seed=7))
    assert ready(project, other, NAME, nothing).identity.sha256 != made.identity.sha256
    assert measured(project, other) == {}
    (other / "renamed").parent.rename(project.runs / "away")
    run.rename(project.runs / "gone")
    (project.runs / "away").rename(run)
    with pytest.raises(Refused, match=r"holds another evaluation \(differs in "):
        evaluate(ready(project, run, NAME, nothing))


@pytest.mark.parametrize("name", ["completed.json", "identity.json", "output/metrics.jsonl"])
def test_an_altered_result_is_refused_and_not_believed(
    project: Project, run: Path, trainer: Trainer, name: str
) -> None:
    made = ready(project, run, NAME, nothing)
    trainer(made, 77.5, 0)
    where = evaluate(made).folder
    path = where / name
    path.write_text(path.read_text().replace("500", "501").replace("perplexity", "perplexitx", 1))
    assert measured(project, run) == {}
    with pytest.raises(Refused):
        evaluate(made)


def test_what_measures_nothing_is_no_result(project: Project, run: Path, trainer: Trainer) -> None:
    made = ready(project, run, NAME, nothing)
    trainer(made, None, 0)
    with pytest.raises(HarnessError, match="left no validation_perplexity"):
        evaluate(made)
    trainer(made, 77.5, 3)
    with pytest.raises(HarnessError, match="ended with status 3: a line"):
        evaluate(made)
    assert measured(project, run) == {}
    trainer(made, 77.5, 0)
    assert evaluate(made).record["value"] == 77.5


def test_only_a_whole_run_is_evaluated(project: Project, run: Path) -> None:
    with pytest.raises(Refused, match="unknown; one of"):
        ready(project, run, "other", nothing)
    (run / "stdout.log").write_bytes(b"x")
    with pytest.raises(Refused, match=r"stdout\.log has other bytes"):
        ready(project, run, NAME, nothing)
    (run / "completed.json").unlink()
    with pytest.raises(Refused, match="not found"):
        ready(project, run, NAME, nothing)


def test_it_must_fit(project: Project) -> None:
    paper = plan(project, Choices("mdlm", "lm1b"))
    entry = evaluations(project)[NAME]
    with pytest.raises(Refused, match="for builtin, not for mdlm"):
        evaluation.adapted(paper, entry, project.runs / "x", project)

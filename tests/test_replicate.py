"""A recorded launch again: in a fresh folder, only if it is the same launch, and compared."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from run_folders import SMOKE, completed_run, launch, reading, trained

from harness import run as running
from harness.canonical import digest
from harness.errors import Refused
from harness.identity import Identity
from harness.launch import Launch
from harness.plan import Choices
from harness.project import Project
from harness.replicate import choices, replicate, same_launch
from harness.run import TrainingFailed

__all__ = ["reading"]
pytestmark = pytest.mark.usefixtures("reading")


@pytest.fixture
def run(project: Project) -> Path:
    return completed_run(project)


def trainer(
    monkeypatch: pytest.MonkeyPatch, ready: Launch, weights: tuple[float, ...] = (1.0, 2.0, 3.0)
) -> None:
    """A trainer that leaves a result at once; asked to stop, it says so by its status."""

    def supervise(box: object, argv: object, out: Path, err: Path, poll: Callable[[], bool]) -> int:
        trained(ready, weights)
        return 143 if poll() else 0

    monkeypatch.setattr(running, "supervise", supervise)
    monkeypatch.setattr(Launch, "box", lambda self: None)


def nothing(progress: object) -> None:
    pass


def test_a_replica_is_the_same_launch_in_a_fresh_folder(project: Project, run: Path) -> None:
    found = choices(project, run)
    assert found == replace(SMOKE, name=f"{run.name}-replica", **chosen(found))
    (project.runs / f"{run.name}-replica").mkdir()
    assert choices(project, run).name == f"{run.name}-replica-2"
    assert choices(project, run, "mine").name == "mine"
    with pytest.raises(Refused, match="is there already"):
        choices(project, run, run.name)
    same_launch(run, launch(project, found))


def chosen(found: Choices) -> dict[str, object]:
    """What a recorded launch says in numbers where the user left the recipe's default."""
    return {"devices": found.devices, "per_device_batch": found.per_device_batch}


def test_an_equal_replica(monkeypatch: pytest.MonkeyPatch, project: Project, run: Path) -> None:
    ready = launch(project, choices(project, run))
    trainer(monkeypatch, ready)
    found = replicate(run, ready, nothing)
    assert found.exit_code == 0
    assert (found.first, found.second) == (run, ready.plan.run)


def test_a_replica_with_other_tensors(
    monkeypatch: pytest.MonkeyPatch, project: Project, run: Path
) -> None:
    ready = launch(project, choices(project, run))
    trainer(monkeypatch, ready, weights=(1.0, 2.0, 4.0))
    found = replicate(run, ready, nothing)
    assert found.tensors is not None
    assert (found.exit_code, found.tensors.largest) == (1, 1.0)


def test_a_prefix_needs_no_completed_run(
    monkeypatch: pytest.MonkeyPatch, project: Project, run: Path
) -> None:
    (run / "completed.json").unlink()
    ready = launch(project, choices(project, run))
    trainer(monkeypatch, ready)
    with pytest.raises(Refused, match="not found"):
        replicate(run, ready, nothing)
    found = replicate(run, ready, nothing, steps=100)
    assert (found.exit_code, found.tensors) == (0, None)


def test_a_prefix_interrupted_by_the_user_is_no_prefix(
    monkeypatch: pytest.MonkeyPatch, project: Project, run: Path
) -> None:
    ready = launch(project, choices(project, run))

    def supervise(*_: object) -> int:
        trained(ready)
        (ready.plan.run / "output" / "progress.json").write_text('{"step": 5, "max_steps": 9}')
        return 130

    monkeypatch.setattr(running, "supervise", supervise)
    monkeypatch.setattr(Launch, "box", lambda self: None)
    with pytest.raises(TrainingFailed, match="interrupted"):
        replicate(run, ready, nothing, steps=100)


def test_another_launch_is_no_replica(project: Project, run: Path) -> None:
    other = launch(project, replace(choices(project, run), seed=7))
    with pytest.raises(Refused, match=r"another launch \(differs in argv/\d+, seed\)"):
        same_launch(run, other)


def test_another_base_or_harness_is_told_by_the_comparison(project: Project, run: Path) -> None:
    ready = launch(project, choices(project, run))
    document = json.loads(json.dumps(ready.identity.document))
    document["environment"]["base"]["kind"] = "nixpkgs"
    document["harness"]["version"] = "9"
    same_launch(run, replace(ready, identity=Identity(document, digest(document))))


def test_a_teacher_must_be_here(project: Project) -> None:
    teacher = completed_run(project, Choices("flm", "lm1b", profile="smoke", name="teacher"))
    student = completed_run(
        project,
        Choices(
            "fmlm", "lm1b", profile="smoke", teachers=(teacher / "model.ckpt",), name="student"
        ),
        weights=(4.0, 5.0, 6.0),
    )
    assert choices(project, student).teachers == (teacher / "model.ckpt",)
    teacher.rename(project.runs / "renamed")
    assert choices(project, student).teachers == (project.runs / "renamed" / "model.ckpt",)
    (project.runs / "renamed" / "completed.json").unlink()
    with pytest.raises(Refused, match="teacher's checkpoint is not on this machine"):
        choices(project, student)

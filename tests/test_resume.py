"""Going on with an upstream's interrupted run: from where, what is removed, what is recorded."""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from checkpoint_files import write
from hypothesis import given
from hypothesis import strategies as st
from run_folders import SMOKE, Here, completed_run, environment, launch, reading, rewrite

from harness import checkpoint, folder, resume
from harness.audit import audit
from harness.cli.diff import lines
from harness.difference import difference
from harness.errors import Refused
from harness.project import Project
from harness.recipes import load
from harness.schemas import validate

__all__ = ["reading"]
SOURCE = Path(__file__).parents[1]
pytestmark = pytest.mark.usefixtures("reading")


def upstream(project: Project, model: str, *, going_on: bool = True, **fields: int) -> Any:
    """What of a launch on an upstream's own code decides where it goes on."""
    recipe = load(SOURCE).recipe(model, "lm1b")
    recipe = replace(recipe, fields={**recipe.fields, **fields})
    planned = SimpleNamespace(recipe=recipe, choices=replace(SMOKE, resume=going_on))
    return SimpleNamespace(project=project, environment=environment(project), plan=planned)


def left(run: Path, *names: str) -> Path:
    """An output folder with checkpoints, each of the step in its name, the last also as last."""
    output = run / folder.OUTPUT
    for name in names:
        file = output / name
        file.parent.mkdir(parents=True, exist_ok=True)
        step = int(file.stem.rpartition("-")[2])
        write(file, {"global_step": step, "state_dict": {}}, {})
        last = {"global_step": step, "state_dict": {}, "last": True}
        write(output / "checkpoints" / "last.ckpt", last, {})
    return output


def test_nothing_there_is_a_start(project: Project, tmp_path: Path) -> None:
    (tmp_path / folder.OUTPUT).mkdir()
    assert resume.prepare(tmp_path, upstream(project, "mdlm")) is None


def test_a_built_in_trainer_decides_itself(project: Project) -> None:
    ready = launch(project)
    left(ready.plan.run, "checkpoints/0-3.ckpt")
    assert resume.prepare(ready.plan.run, ready) is None


def test_without_rounds_it_goes_on_anywhere(project: Project, tmp_path: Path) -> None:
    left(tmp_path, "checkpoints/0-2.ckpt", "checkpoints/0-3.ckpt")
    assert resume.prepare(tmp_path, upstream(project, "mdlm")) == 3


def test_a_round_s_end_stays(project: Project, tmp_path: Path) -> None:
    output = left(tmp_path, "checkpoints/0-2.ckpt", "checkpoints/0-4.ckpt")
    before = (output / "checkpoints" / "last.ckpt").read_bytes()
    assert resume.prepare(tmp_path, upstream(project, "mdlm_sdtt", steps_per_round=2)) == 4
    assert (output / "checkpoints" / "last.ckpt").read_bytes() == before


def test_within_a_round_it_goes_back_to_the_last_end(project: Project, tmp_path: Path) -> None:
    output = left(
        tmp_path,
        *("checkpoints/0-4.ckpt", "student_checkpoints/4.ckpt", "checkpoints/0-8.ckpt"),
        *("student_checkpoints/8.ckpt", "checkpoints/0-10.ckpt", "checkpoints/0-11.ckpt"),
    )
    write(output / "checkpoints" / "best.ckpt", {"global_step": 9}, {})
    assert resume.prepare(tmp_path, upstream(project, "duo_dcd", steps_per_round=4)) == 8
    names = sorted(file.relative_to(output).as_posix() for file in output.rglob("*.ckpt"))
    assert names == [
        *("checkpoints/0-4.ckpt", "checkpoints/0-8.ckpt", "checkpoints/best.ckpt"),
        *("checkpoints/last.ckpt", "student_checkpoints/4.ckpt", "student_checkpoints/8.ckpt"),
    ]
    last = (output / "checkpoints" / "last.ckpt").read_bytes()
    assert last == (output / "student_checkpoints" / "8.ckpt").read_bytes()


@pytest.mark.parametrize("lie", [None, 6])
def test_within_the_first_round_it_is_refused(
    project: Project, tmp_path: Path, lie: int | None
) -> None:
    output = left(tmp_path, "checkpoints/0-3.ckpt")
    if lie:
        write(output / "checkpoints" / "0-2.ckpt", {"global_step": lie, "state_dict": {}}, {})
    ready = upstream(project, "mdlm_sdtt", steps_per_round=2)
    with pytest.raises(Refused, match=r"last.ckpt: is of step 3, within a round of 2, .* move"):
        resume.prepare(tmp_path, ready)
    assert (output / "checkpoints" / "0-3.ckpt").exists()


def a_link_to_a_folder(output: Path, victim: Path) -> None:
    (output / "student_checkpoints").symlink_to(victim)


def a_link_in_the_place_of_all(output: Path, victim: Path) -> None:
    shutil.rmtree(output / "checkpoints")
    (output / "checkpoints").symlink_to(victim)


def a_link_as_the_last_one(output: Path, victim: Path) -> None:
    (output / "checkpoints/last.ckpt").unlink()
    (output / "checkpoints/last.ckpt").symlink_to(victim / "last.ckpt")


def a_link_as_a_round_s_end(output: Path, victim: Path) -> None:
    (output / "checkpoints/0-2.ckpt").unlink()
    (output / "checkpoints/0-2.ckpt").symlink_to(victim / "0-2.ckpt")


def a_second_name(output: Path, victim: Path) -> None:
    (output / "checkpoints/0-3.ckpt").unlink()
    (output / "checkpoints/0-3.ckpt").hardlink_to(victim / "0-3.ckpt")


def a_link_deep_below(output: Path, victim: Path) -> None:
    (output / "a/b").mkdir(parents=True)
    (output / "a/b/c").symlink_to(victim)


def a_pipe(output: Path, victim: Path) -> None:
    os.mkfifo(output / "checkpoints/0-9.ckpt")


TRAPS = (
    *(a_link_to_a_folder, a_link_in_the_place_of_all, a_link_as_the_last_one),
    *(a_link_as_a_round_s_end, a_second_name, a_link_deep_below, a_pipe),
)


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
@pytest.mark.parametrize("model", ["mdlm", "mdlm_sdtt"])
def test_it_goes_on_over_plain_files_alone(
    project: Project, tmp_path: Path, trap: Callable[[Path, Path], None], model: str
) -> None:
    victim = left(tmp_path / "host", "checkpoints/0-2.ckpt", "checkpoints/0-3.ckpt") / "checkpoints"
    before = {path.name: path.read_bytes() for path in victim.iterdir()}
    run = tmp_path / "run"
    trap(left(run, "checkpoints/0-2.ckpt", "checkpoints/0-3.ckpt"), victim)
    with pytest.raises(
        Refused, match=r": is (a symbolic link|a hard link|neither).*; move .* away"
    ):
        resume.prepare(run, upstream(project, model, steps_per_round=2))
    assert {path.name: path.read_bytes() for path in victim.iterdir()} == before


def test_a_built_in_trainer_goes_on_over_plain_files_alone_too(project: Project) -> None:
    ready = launch(project)
    (left(ready.plan.run, "checkpoints/0-3.ckpt") / "link").symlink_to("/")
    with pytest.raises(Refused, match="output/link: is a symbolic link"):
        resume.prepare(ready.plan.run, ready)


def test_a_link_put_there_meanwhile_is_not_followed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node's trainer may run while the first node prepares."""
    victim = left(tmp_path / "host", "checkpoints/0-2.ckpt", "checkpoints/0-3.ckpt") / "checkpoints"
    before = {path.name: path.read_bytes() for path in victim.iterdir()}
    output = left(tmp_path / "run", "checkpoints/0-2.ckpt", "checkpoints/0-3.ckpt")
    read = resume._step

    def step(launch: Any, file: Path) -> int:
        found = read(launch, file)
        if file.name == "0-2.ckpt":
            a_link_in_the_place_of_all(output, victim)
        return found

    monkeypatch.setattr(resume, "_step", step)
    with pytest.raises(OSError, match="Not a directory|Too many levels"):
        resume.prepare(tmp_path / "run", upstream(project, "mdlm_sdtt", steps_per_round=2))
    assert {path.name: path.read_bytes() for path in victim.iterdir()} == before


@pytest.mark.parametrize(
    ("model", "name", "going_on"),
    [
        ("mdlm", "checkpoints/0-2.ckpt", False),
        ("rdlm", "checkpoints-meta/checkpoint.pth", False),
        ("rdlm", "checkpoints/checkpoint_1.pth", True),
    ],
)
def test_checkpoints_it_must_not_go_on_from_are_refused(
    project: Project, tmp_path: Path, model: str, name: str, going_on: bool
) -> None:
    file = tmp_path / folder.OUTPUT / name
    file.parent.mkdir(parents=True)
    write(file, {"global_step": 2, "state_dict": {}}, {})
    with pytest.raises(Refused, match="an attempt that this launch does not go on from; move"):
        resume.prepare(tmp_path, upstream(project, model, going_on=going_on))


def test_rdlm_goes_on_from_its_own_place(project: Project, tmp_path: Path) -> None:
    file = tmp_path / folder.OUTPUT / "checkpoints-meta" / "checkpoint.pth"
    file.parent.mkdir(parents=True)
    write(file, {"step": 5001, "model": {}}, {})
    assert resume.prepare(tmp_path, upstream(project, "rdlm")) == 5001


@pytest.mark.parametrize("value", [b"no checkpoint", None])
def test_what_tells_no_step_is_refused(
    project: Project, tmp_path: Path, value: bytes | None
) -> None:
    file = tmp_path / folder.OUTPUT / "checkpoints" / "last.ckpt"
    file.parent.mkdir(parents=True)
    if value is None:
        write(file, {"state_dict": {}}, {})
    else:
        file.write_bytes(value)
    with pytest.raises(Refused, match=r"last.ckpt: (holds no step|neither a torch)"):
        resume.prepare(tmp_path, upstream(project, "mdlm"))


@given(st.sets(st.integers(1, 60)), st.integers(1, 60), st.integers(1, 7))
def test_the_last_round_end(numbers: Iterable[int], before: int, every: int) -> None:
    files = [Path("checkpoints", f"0-{n}.ckpt") for n in numbers]
    found = resume.last_round_end([*files, Path("best.ckpt")], before, every)
    ends = [n for n in numbers if n < before and n % every == 0]
    assert found == (Path("checkpoints", f"0-{max(ends)}.ckpt") if ends else None)


def test_only_what_the_result_stands_on_is_told() -> None:
    attempts: list[dict[str, Any]] = [{}, {"resumed_at": 2}, {}, {"resumed_at": 4}]
    assert resume.steps(attempts) == [4]
    assert resume.steps([*attempts, {"resumed_at": 6}]) == [4, 6]
    assert resume.steps(attempts[:1]) == []


def went_on(run: Path, *steps: int) -> None:
    """Have a completed run say that it went on at these steps."""

    def attempts(record: dict[str, Any]) -> None:
        first = record["attempts"][0]
        again = {**first, "started": first["ended"]}
        record["attempts"] += [{**again, "resumed_at": step} for step in steps]

    rewrite(run / folder.PROVENANCE, attempts)
    found, _ = folder.scan(run)
    files = [vars(found[name]) for name in sorted(found)]
    rewrite(run / folder.COMPLETED, lambda r: r.update(files=files, resumed_at=list(steps)))


def claims(project: Project, run: Path) -> dict[str, str]:
    return {claim.name: claim.verdict.value for claim in audit(Here(project), run).claims}


def test_an_audit_holds_it_to_the_weaker_strength(project: Project) -> None:
    run = completed_run(project)
    assert claims(project, run)["resumed at"] == "holds"
    assert audit(Here(project), run).exit_code == 0
    went_on(run, 10, 20)
    found = claims(project, run)
    assert found["resumed at"] == "holds"
    assert found["tensors of another run"] == "cannot be checked here"
    assert audit(Here(project), run).exit_code == 2


def test_a_marker_that_hides_it_differs(project: Project) -> None:
    run = completed_run(project)
    went_on(run, 10)
    rewrite(run / folder.COMPLETED, lambda record: record.pop("resumed_at"))
    assert claims(project, run)["resumed at"] == "differs"


def test_its_numbers_are_told_and_not_judged(project: Project) -> None:
    first = completed_run(project)
    second = completed_run(project, replace(SMOKE, name="other"), weights=(1.0, 2.0, 4.0), start=5)

    def compare(one: Path, two: Path) -> checkpoint.Comparison:
        return checkpoint.compare(project, environment(project), one, two)

    assert difference(first, second, compare).exit_code == 1
    went_on(second, 10)
    found = difference(first, second, compare)
    validate(json.loads(json.dumps(found.record())), "diff", "test")
    assert found.exit_code == 2
    assert any("other went on at 10: not bit for bit" in line for line in lines(found))
    rewrite(second / folder.COMPLETED, lambda r: r["checkpoint"].update(step=7))
    assert difference(first, second, compare).exit_code == 1

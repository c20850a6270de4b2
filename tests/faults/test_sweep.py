"""A sample of the faults in sweep.py, and that the sweep sees a harness that is not safe."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest
from faults import sweep
from faults.injector import Injector, Operation
from faults.stage import Stage

from harness import complete, files

pytestmark = pytest.mark.e2e

# One case in so many of each kind.
SAMPLE = {
    "operations": 71,
    "trainer": 31,
    "limits": 9,
    "clocks": 4,
    "at-once": 4,
    "disks": 13,
    "read-only": 1,
    "random": 23,
}


@pytest.fixture(scope="session")
def stage(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    work = tmp_path_factory.mktemp("stage")
    for folder in (work, *work.parents[:2]):
        folder.chmod(0o755)
    return Stage.build(work, base)


def test_every_kind_is_sampled() -> None:
    assert set(SAMPLE) == {*sweep.KINDS, "random"}


@pytest.mark.parametrize("kind", SAMPLE)
def test_faults_are_survived(stage: Stage, kind: str) -> None:
    if kind in sweep.ROOT_ONLY and os.getuid() != 0:
        pytest.skip("only root can mount a disk")
    listed = list(sweep.cases(stage, 0, kind))
    assert len(listed) > 2
    for case in listed[:: SAMPLE[kind]]:
        assert sweep.check(stage, case) == [], case.name


def test_there_are_hundreds_of_them(stage: Stage) -> None:
    names = [f"{case.again} {case.name}" for case in sweep.operations(stage)]
    assert len(set(names)) == len(names) > 400
    for kind in ("write", "fsync", "rename"):
        for name in ("completed.json", "identity.json", "model.ckpt"):
            part = name if kind == "rename" else f".{name}.part"
            assert f"False power at {kind} {part}" in names


def test_a_harness_that_writes_in_place_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def in_place(target: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            yield file

    monkeypatch.setattr(files, "publishing", in_place)
    found = _check(stage, Operation("write", "completed.json", 1), "kill")
    assert any("does not go on" in line for line in found), found


def test_a_harness_that_flushes_nothing_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = complete.folder.scan
    monkeypatch.setattr(complete.folder, "inventory", lambda run: inventory(run)[0].values())
    found = _check(stage, Operation("exit", "the run folder", 1), "power")
    assert any("does not go on" in line for line in found), found


def _check(stage: Stage, at: Operation, action: str) -> list[str]:
    return sweep.check(stage, sweep.Case("mutant", str(at), sweep._at(at, action)))


def test_what_was_not_flushed_is_lost_in_a_power_cut(tmp_path: Path) -> None:
    flushed, not_flushed, old = (tmp_path / name for name in ("flushed", "not", "old"))
    old.write_text("old")
    injector = Injector(tmp_path)
    injector.flushed[old.stat().st_ino] = 3
    for path in (flushed, not_flushed):
        path.write_text("new")
    injector.flushed[flushed.stat().st_ino] = 3
    injector.renamed.append((tmp_path / "part", flushed, b"before"))
    injector.cut()
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert left == {"old": "old", "not": "", "part": "new", "flushed": "before"}

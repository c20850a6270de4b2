"""An untouched run holds wherever it lies; whatever is done to its files is named."""

import json
import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import tampering
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_folders import Here, differing, nested, relist

from harness import trees
from harness.audit import Verdict, audit, runs_below
from harness.errors import Refused
from harness.schemas import validate


def test_an_untouched_run_holds(here: Here, run: Path) -> None:
    found = audit(here, run)
    assert {claim.verdict for claim in found.claims} == {Verdict.HOLDS}, differing(found)
    assert found.exit_code == 0
    validate(found.record(), "audit", "test")


def test_a_copy_elsewhere_holds(here: Here, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "a copy\x1b[31m")
    shutil.rmtree(run)
    found = audit(here, tmp_path / "a copy\x1b[31m")
    assert found.exit_code == 0
    assert "\x1b" not in json.dumps(found.record(), ensure_ascii=False)


@given(st.data())
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_changed_byte_is_named(here: Here, run: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([run / name for name in tampering.files(run)]))
    before = path.read_bytes()
    if before and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(before) - 1))
        other = before[at] ^ data.draw(st.integers(1, 255))
        after = before[:at] + bytes([other]) + before[at + 1 :]
    else:
        at = data.draw(st.integers(0, len(before)))
        after = before[:at] + data.draw(st.binary(min_size=1, max_size=3)) + before[at:]
    path.write_bytes(after)
    try:
        found = audit(here, run)
    finally:
        path.write_bytes(before)
    assert found.exit_code == 1
    assert path.relative_to(run).as_posix() in differing(found)


def test_every_byte_of_the_completion_record_counts(here: Here, run: Path) -> None:
    from harness.audit.recorded import _record

    path = run / "completed.json"
    before = path.read_bytes()
    for at in range(len(before)):
        path.write_bytes(before[:at] + bytes([before[at] ^ 1]) + before[at + 1 :])
        with pytest.raises((Refused, ValueError, RecursionError)):
            _record(path, "completed")
    path.write_bytes(before)
    _record(path, "completed")


@pytest.fixture
def deep(run: Path) -> Path:
    """A run whose trainer left what trainers leave: folders, event files, logs of its own."""
    for name in ("tensorboard/version_0/events.out.tfevents.1.host.2.0", ".hydra/config.yaml"):
        (run / "output" / name).parent.mkdir(parents=True)
        (run / "output" / name).write_bytes(name.encode())
    relist(run)
    return run


def test_whatever_is_done_to_it_is_named(here: Here, deep: Path, tmp_path: Path) -> None:
    assert audit(here, deep).exit_code == 0
    copy, other = tmp_path / "copy", tmp_path / "other"
    shutil.copytree(deep, copy)
    for touch, name, change in tampering.all_of(deep):
        change(copy, other)
        found = audit(here, copy)
        assert found.exit_code == 1, (touch, name)
        assert name.as_posix() in differing(found), (touch, name)
        assert name.as_posix() == "completed.json" or "completed.json | " not in differing(found)
        tampering.restore(deep, copy, name, other)
    assert audit(here, copy).exit_code == 0


def test_modes_and_folders_times_are_no_claims(here: Here, deep: Path) -> None:
    """Neither survives a copy by every tool."""
    for path in deep.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1, 1))
    assert audit(here, deep).exit_code == 0


def test_a_tree_of_any_depth_is_audited(here: Here, run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    shutil.copytree(run, folder / run.name)
    for place in (folder, folder / run.name):
        nested(place, 1500)
    try:
        assert runs_below(folder) == [folder / run.name]
        found = audit(here, folder / run.name)
        assert [claim.why for claim in found.claims if claim.why] == ["is an empty folder"]
    finally:
        trees.remove(folder)


@pytest.mark.parametrize("name", ["x", ".hidden", "output/x", "output/checkpoints/e\x1b[1m\udcff"])
def test_an_added_file_is_named(here: Here, run: Path, name: str) -> None:
    (run / name).write_bytes(b"")
    found = audit(here, run)
    assert found.exit_code == 1
    told = differing(found)
    assert f"file {name}" in told if name.isprintable() else r"e\x1b[1m\udcff" in told
    json.dumps(found.record(), ensure_ascii=False).encode()


def test_two_files_swapped_are_both_named(here: Here, run: Path, tmp_path: Path) -> None:
    names = tampering.files(run)
    for one, two in pairwise(names):
        if (run / one).read_bytes() == (run / two).read_bytes():
            continue
        copy = tmp_path / f"{one.name} and {two.name}"
        shutil.copytree(run, copy)
        (copy / one).rename(tmp_path / "aside")
        (copy / two).rename(copy / one)
        (tmp_path / "aside").rename(copy / two)
        told = differing(audit(here, copy))
        for name in (one, two):
            # A completion record in another place vouches for nothing, so only it is named.
            assert name.as_posix() in told or "completed.json" in (one.name, two.name)


def test_added_names_are_told_one_by_one_up_to_a_bound(here: Here, run: Path) -> None:
    for number in range(1100):
        (run / f"x{number}").touch()
    found = audit(here, run)
    assert sum(claim.name.startswith("file x") for claim in found.claims) == 1000
    assert "100 more differ" in differing(found)

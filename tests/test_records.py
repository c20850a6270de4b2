"""Recorded launches: known by all that decides them but the base, with a result a base."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_folders import BASE, SMOKE, SOURCE, Here, completed_run, reading, relist, rewrite

from harness.audit import Verdict, audit
from harness.errors import Refused
from harness.identity import differences
from harness.json_files import publish_json
from harness.project import Project
from harness.records import FILE, expected, launch_sha256, of_choices, record
from harness.schemas import read_record

__all__ = ["reading"]
pytestmark = pytest.mark.usefixtures("reading")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose source is this tree, but with records of its own."""
    source = tmp_path / "source"
    for name in ("adapters", "builtin", "envs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCE / name, source / name, ignore=ignored)
    for path in (*SOURCE.glob("*.json"), SOURCE / "flake.lock"):
        shutil.copy(path, source / path.name)
    (source / "records").mkdir()
    return Project(source=source, root=tmp_path / "root")


def identity(run: Path) -> dict[str, Any]:
    return json.loads((run / "identity.json").read_text())  # type: ignore[no-any-return]


def on_another_base(document: dict[str, Any]) -> dict[str, Any]:
    base = {"kind": "nixpkgs", "path": f"{'1' * 32}-base"}
    return {**document, "environment": {**document["environment"], "base": base}}


def test_a_launch_is_known_without_its_base(project: Project) -> None:
    document = identity(completed_run(project))
    assert launch_sha256(on_another_base(document)) == launch_sha256(document)
    for changed in ({"seed": 7}, {"environment": {**document["environment"], "name": "other"}}):
        assert launch_sha256({**document, **changed}) != launch_sha256(document)


def test_what_is_recorded_is_expected_again(project: Project) -> None:
    run = completed_run(project)
    assert expected(project, identity(run)) is None
    record(project, run)
    found = expected(project, identity(run))
    assert found is not None
    completed = json.loads((run / "completed.json").read_text())
    assert found.tensors["state"] == completed["checkpoint"]["tensors"]["state"]["digest"]
    assert expected(project, on_another_base(identity(run))) is None
    assert of_choices(project, "mdlm", "lm1b") is not None
    assert of_choices(project, "mdlm", "owt") is None


def test_an_audit_tells_whether_the_recorded_result_came_out(project: Project) -> None:
    run = completed_run(project)
    here = Here(project)
    assert "recorded result" not in {claim.name for claim in audit(here, run).claims}
    record(project, run)
    assert audit(here, run).exit_code == 0
    other = completed_run(project, replace(SMOKE, name="other"), weights=(7.0, 8.0, 9.0))
    (claim,) = [c for c in audit(here, other).claims if c.verdict is Verdict.DIFFERS]
    assert claim.name == "recorded result"
    assert "launches.json" in claim.why


def test_results_of_other_bases_stay_while_the_launch_is_the_same(project: Project) -> None:
    run = completed_run(project)
    record(project, run)
    path = project.source / FILE
    kept = read_record(path, "launches")
    elsewhere = json.loads(json.dumps(kept))
    result = elsewhere["launches"][0]["results"][0]
    result["base"] = {"kind": "nixpkgs", "path": f"{'1' * 32}-base"}
    publish_json(path, elsewhere)
    bases = [entry["base"]["path"] for entry in record(project, run)["results"]]
    assert bases == [f"{'1' * 32}-base", BASE.path.name]
    result["base"]["path"] = f"{'2' * 32}-base"
    elsewhere["launches"][0]["launch_sha256"] = "0" * 64
    publish_json(path, elsewhere)
    assert [e["base"]["path"] for e in record(project, run)["results"]] == [BASE.path.name]
    assert differences(read_record(path, "launches"), kept) == []


def test_only_whole_smoke_runs_are_recorded(project: Project) -> None:
    run = completed_run(project)
    (run / "stdout.log").write_bytes(b"x")
    with pytest.raises(Refused, match=r"stdout\.log has other bytes"):
        record(project, run)
    other = completed_run(project, replace(SMOKE, seed=7))
    rewrite(other / "identity.json", lambda r: r["recipe"].update(profile="paper"))
    relist(other)
    with pytest.raises(Refused, match="only smoke runs"):
        record(project, other)

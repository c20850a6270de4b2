"""The commands for finished runs: what they print, for people and as JSON, and their status."""

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from run_folders import SMOKE, SOURCE, Here, completed_run, environment, reading

import harness.audit
from harness.cli import audit, diff, record, report
from harness.project import Project
from harness.schemas import validate

__all__ = ["reading"]
pytestmark = pytest.mark.usefixtures("reading")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(harness.audit, "Machine", Here)
    monkeypatch.setenv("COLUMNS", "140")
    return Project(source=SOURCE, root=tmp_path / "root")


@pytest.fixture
def run(project: Project) -> Path:
    return completed_run(project)


def invoke(project: Project, command: click.Command, *words: object) -> Result:
    found = CliRunner().invoke(command, [str(word) for word in words], obj=project)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


def test_an_audit_of_one_run(project: Project, run: Path) -> None:
    good = invoke(project, audit.command, run)
    assert good.exit_code == 0
    assert "tensors: state" in good.stdout
    assert "1 runs" not in good.stdout
    (run / "model.ckpt").write_bytes(b"x")
    bad = invoke(project, audit.command, run)
    assert bad.exit_code == 1
    assert "file model.ckpt" in bad.stdout


def test_an_audit_of_a_folder_tells_only_what_does_not_hold(project: Project, run: Path) -> None:
    other = completed_run(project, replace(SMOKE, seed=7))
    (other / "model.ckpt").write_bytes(b"x")
    found = invoke(project, audit.command, project.runs)
    assert found.exit_code == 1
    assert "1 of 2 runs hold in full" in found.stdout
    assert "identity of the facts" not in found.stdout
    document = json.loads(invoke(project, audit.command, project.runs, "--json").stdout)
    validate(document, "audit", "test")
    assert [entry["exit_code"] for entry in document["runs"]] == [0, 1]


def test_an_audit_beside_papers(project: Project, run: Path) -> None:
    found = invoke(project, audit.command, run, "--paper")
    assert "not comparable" in found.stdout
    document = json.loads(invoke(project, audit.command, run, "--paper", "--json").stdout)
    validate(document, "audit", "test")
    assert {entry["measured"] for entry in document["paper"]} == {90.0, None}
    (run / "identity.json").write_bytes(b"{}")
    assert invoke(project, audit.command, run, "--paper").exit_code == 1


def test_nothing_a_run_says_acts_on_the_terminal(project: Project, run: Path) -> None:
    hostile = "\x1b]0;x\x07[red]\u202ex"
    (run / hostile).write_bytes(b"")
    moved = run.with_name(hostile)
    run.rename(moved)
    for words in ([moved], [project.runs], [moved, "--paper"]):
        told = invoke(project, audit.command, *words).stdout
        assert all(c.isprintable() or c == "\n" for c in told)
        assert "[red]" in told


def test_no_run_is_one_line(project: Project, tmp_path: Path) -> None:
    found = CliRunner().invoke(audit.command, [str(tmp_path)], obj=project)
    assert "holds no run" in str(found.exception)


def test_two_runs_compared(project: Project, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Here, "reader", lambda self: environment(project))
    other = completed_run(project, replace(SMOKE, name="other"), weights=(1.0, 2.0, 4.0))
    assert invoke(project, diff.command, run, run).exit_code == 0
    found = invoke(project, diff.command, run, other)
    assert found.exit_code == 1
    assert "largest difference 1" in found.stdout
    validate(json.loads(invoke(project, diff.command, run, other, "--json").stdout), "diff", "test")
    assert invoke(project, diff.command, run, other, "--steps", "100").exit_code == 0


def test_a_report_goes_where_it_is_told(project: Project, run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert invoke(project, report.command, project.runs, "-o", page).exit_code == 0
    assert page.read_text().startswith("<!doctype html>")
    told = invoke(project, report.command, run, "--format", "md").stdout
    assert told.startswith("# Runs\n")
    assert invoke(project, report.command, run, "-o", tmp_path / "page.md").exit_code == 0
    assert (tmp_path / "page.md").read_text().startswith("# Runs\n")


def test_a_result_is_recorded_in_the_checkout(project: Project, run: Path, tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    found = invoke(project, record.command, run, "--source", tmp_path)
    assert "mdlm on lm1b, 1 base(s)" in found.stdout
    validate(json.loads((tmp_path / "records" / "launches.json").read_text()), "launches", "test")

"""The commands for finished runs: what they print, for people and as JSON, and their status."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from run_folders import SMOKE, SOURCE, Here, completed_run, environment, forge, reading

import harness.audit
from harness.cli import audit, diff, main, record, report
from harness.project import Project
from harness.schemas import validate
from harness.slurm.files import Submission

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


WILD = "\x1b]0;PWNED\x07\x1b[2J\u202e[red]x\r"


def wild(project: Project, fields: dict[str, str]) -> Path:
    """A completed run that says `WILD` wherever it can say anything, its digests all right."""
    at = completed_run(project, replace(SMOKE, name="wild"))
    at = at.rename(at.with_name(WILD))
    for name in ("stdout.log", "stderr.log", "config.yaml", f"output/{WILD}"):
        (at / name).write_text(f"{WILD}\n{WILD}\t{WILD}\n")
    with (at / "output/metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps({WILD: 1, "step": 500}) + "\n")
    host = dict.fromkeys(("name", "kernel", "machine", "processor", "driver"), WILD)

    def facts(record: dict[str, Any]) -> None:
        record["harness"] = WILD
        record["paths"] |= {"teacher": str(project.root / WILD), "base": WILD}
        record["attempts"][-1]["host"] |= {**host, "gpus": [WILD]}
        record["attempts"][-1]["tools"] = {"nix": WILD, "bubblewrap": WILD}

    def identity(record: dict[str, Any]) -> None:
        if fields:
            record["recipe"]["fields"] |= fields
            record["argv"].append(WILD)
            record["variables"]["WILD"] = WILD
            record["teacher"] = {"sha256": "0" * 64, "identity": None, "weights": "raw"}
            record["harness"]["version"] = record["tokenizer"]["name"] = WILD

    (project.root / WILD).write_text(WILD)
    forge(at, identity, facts)
    return at


RUN, OTHER, OUT = "RUN", "OTHER", "OUT"
PRINTING = {
    "audit": ([RUN], [RUN, "--paper"], [RUN, "--json", "--paper"], ["RUNS", "--paper"]),
    "diff": ([RUN, OTHER], [OTHER, RUN, "--json"], [RUN, OTHER, "--steps", "100"]),
    "report": ([RUN, "--format", "md"], [RUN], [RUN, "-o", OUT]),
    "export": ([RUN, "-o", OUT], [RUN, "-o", OUT, "--format", "ro-crate"]),
    "status": ([], ["--json"]),
    "logs": ([RUN], [RUN, "-n", "2"]),
    "record": ([RUN, "--source", "CHECKOUT"],),
    "evaluate": ([RUN], [RUN, "generative-perplexity"]),
    "sample": ([RUN],),
    "replicate": ([RUN],),
    "cancel": (["7"],),
    "train": (["mdlm", "lm1b", "--profile", "smoke", "--name", WILD],),
    "plan": (["mdlm", "lm1b", "--profile", "smoke", "--name", WILD],),
    "show": (["mdlm", WILD],),
}
# They read no run folder, or (the last three) only such as they make themselves.
OTHERS = {
    *("list", "fetch", "prepare", "verify", "cache", "pin", "lock", "doctor"),
    *("shell", "conform", "submit"),
}


def test_every_command_is_known_to_print_a_runs_text_or_not() -> None:
    assert PRINTING.keys() | OTHERS == set(main.COMMANDS)


@pytest.mark.parametrize("fields", [{}, {"max_steps": WILD, "lr": WILD}], ids=["facts", "fields"])
@pytest.mark.parametrize("name", PRINTING)
def test_no_command_has_a_terminal_act_on_a_runs_text(
    project: Project,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    fields: dict[str, str],
) -> None:
    monkeypatch.setattr(Here, "reader", lambda self: environment(project))
    monkeypatch.setattr("harness.slurm.commands.alive", set)
    monkeypatch.setattr("harness.slurm.commands.cancel", lambda jobs: None)
    at = wild(project, fields)
    (project.root / "slurm").mkdir()
    Submission(
        job="7", run=at, identity=None, model=WILD, dataset=WILD, seed=1, nodes=1,
        gpus_per_node=1, after=(), submitted="2026-01-01T00:00:00Z",
    ).publish(project)  # fmt: skip
    places = {RUN: at, OTHER: run, OUT: tmp_path / WILD, "RUNS": project.runs, "CHECKOUT": tmp_path}
    for words in PRINTING[name]:
        given = [str(places.get(word, word)) for word in words]
        monkeypatch.setattr("sys.argv", ["harness", "--root", str(project.root), name, *given])
        with pytest.raises(SystemExit):
            main.main()
        told = "".join(capsys.readouterr())
        assert told.strip() or OUT in words
        assert [c for c in told if not c.isprintable() and c not in "\n\t"] == []
        assert "Traceback" not in told


def test_what_a_shell_expands_to_does_not_act_on_the_terminal(
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / WILD).write_text("")
    monkeypatch.setattr("sys.argv", ["harness", "audit", str(tmp_path / WILD)])
    with pytest.raises(SystemExit):
        main.main()
    told = "".join(capsys.readouterr())
    assert "PWNED" in told
    assert all(c.isprintable() or c == "\n" for c in told)


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

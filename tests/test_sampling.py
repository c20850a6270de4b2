"""Sampling: the run's own launch turned to its sampler, and rows that nobody trusts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from run_folders import CONFIG, SMOKE, completed_run, data, environment, nested, reading

from harness import launch, sampling
from harness.cli.main import group
from harness.errors import HarnessError, Refused
from harness.launch import Launch
from harness.plan import plan
from harness.project import Project
from harness.sampling import Draw, Row, sample

__all__ = ["reading"]
pytestmark = pytest.mark.usefixtures("reading")
DRAW = Draw(count=2, steps=8, seed=3)
ROWS = [{"ids": [1, 2], "text": "one two"}, {"ids": [3, 4], "text": "three\x1b[2J four"}]


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
def sampler(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    """A sampler that prints these lines; the argument lists it was started with."""

    def make(lines: list[str], status: int = 0) -> list[list[str]]:
        started: list[list[str]] = []

        def supervise(box: object, argv: list[str], out: Path, err: Path, poll: object) -> int:
            started.append(argv)
            out.write_text("".join(f"{line}\n" for line in lines))
            err.write_text("why it failed\n")
            return status

        monkeypatch.setattr(sampling, "supervise", supervise)
        return started

    return make


def nothing(line: str) -> None:
    pass


def test_rows_come_from_the_runs_launch_with_the_declared_changes(
    project: Project, run: Path, sampler: Callable[..., list[list[str]]]
) -> None:
    started = sampler([json.dumps(row) for row in ROWS])
    assert list(sample(project, run, DRAW, nothing)) == [
        Row((1, 2), "one two"),
        Row((3, 4), "three\x1b[2J four"),
    ]
    trained, (argv,) = plan(project, SMOKE), started
    changed = set(argv) - set(trained.argv)
    assert changed == {
        "mode=sample",
        "seed=3",
        "eval.checkpoint_path=/run/harness/checkpoint/model.ckpt",
        "sampling.steps=8",
        "sampling.num_samples=2",
    }
    assert {"mode=train", "seed=42"} == set(trained.argv) - set(argv)


def test_what_a_terminal_could_act_on_is_escaped(
    project: Project, run: Path, sampler: Callable[..., list[list[str]]]
) -> None:
    sampler([json.dumps(row) for row in ROWS])
    done = CliRunner().invoke(group, ["--root", str(project.root), "sample", str(run)])
    assert "[2] three\\x1b[2J four" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    "line",
    [
        *("", "{", "[]", '{"ids": 1, "text": ""}', '{"text": "x"}', "[" * 9999),
        *('{"ids": [Infinity], "text": "x"}', '{"ids": [NaN], "text": "x"}'),
        *('{"ids": [true], "text": "x"}', '{"ids": "12", "text": "x"}', '{"ids": [1], "text": 2}'),
    ],
)
def test_a_line_that_is_no_row_is_named(
    project: Project, run: Path, sampler: Callable[..., list[list[str]]], line: str
) -> None:
    sampler([json.dumps(ROWS[0]), line])
    with pytest.raises(HarnessError, match="line 2 is no row"):
        list(sample(project, run, DRAW, nothing))


def test_a_sampler_that_fails_says_why(
    project: Project, run: Path, sampler: Callable[..., list[list[str]]]
) -> None:
    sampler([], status=9)
    with pytest.raises(HarnessError, match="status 9: why it failed"):
        list(sample(project, run, DRAW, nothing))


def test_what_a_sampler_leaves_is_removed_and_no_link_followed(
    project: Project,
    run: Path,
    sampler: Callable[..., list[list[str]]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    sampler([])
    honest, places = sampling.supervise, []
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "file").write_text("precious")

    def supervise(box: Any, argv: list[str], out: Path, err: Path, poll: Any) -> int:
        places.append(out.parent)
        (out.parent / "output" / "link").symlink_to(tmp_path / "host")
        nested(out.parent / "output", 3000)
        return honest(box, argv, out, err, poll)

    monkeypatch.setattr(sampling, "supervise", supervise)
    assert list(sample(project, run, DRAW, nothing)) == []
    assert not places[0].exists()
    assert (tmp_path / "host" / "file").read_text() == "precious"


def test_rows_are_not_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"ids": [1], "text": "x"}\n')
    (tmp_path / "stdout.log").symlink_to("secret")
    with pytest.raises(Refused, match="cannot be opened as a plain file"):
        list(sampling.rows(tmp_path / "stdout.log"))


def test_only_whole_runs_are_sampled(project: Project, run: Path) -> None:
    (run / "stdout.log").write_bytes(b"x")
    with pytest.raises(Refused, match=r"stdout\.log has other bytes"):
        list(sample(project, run, DRAW, nothing))

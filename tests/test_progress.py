"""Progress on stderr goes on, or is left out, but never ends a training."""

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.bars import bars
from harness.cli.progress import Reporter, line
from harness.plan import Choices, plan
from harness.project import Project
from harness.run import Progress

SOME = Progress(step=3, max_steps=8, loss=2.5, tokens_per_second=1000.0, seconds_left=5.0)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Gone(io.StringIO):
    """A stream nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, term: str | None) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    if term is None:
        monkeypatch.delenv("TERM", raising=False)
    else:
        monkeypatch.setenv("TERM", term)
    reporter = Reporter()
    for _ in range(3):
        reporter.progress(SOME)
    reporter.say("end")
    return stream.getvalue()


def test_a_terminal_has_one_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal(), "xterm")
    assert text.count("\r\x1b[2Kstep 3/8") == 3
    assert text.endswith("left\nend\n")


@pytest.mark.parametrize(
    ("stream", "term"), [(io.StringIO(), "xterm"), (Terminal(), "dumb"), (Terminal(), None)]
)
def test_elsewhere_lines_are_plain_and_few(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, term: str | None
) -> None:
    assert shown(monkeypatch, stream, term).count("step 3/8") == 1
    assert "\x1b" not in stream.getvalue()


def test_nobody_listening_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Gone(), "xterm") == ""


def test_the_first_step_says_nothing_of_the_speed() -> None:
    assert line(replace(SOME, step=1)) == "step 1/8  loss 2.500"
    assert line(SOME) == "step 3/8  loss 2.500  1.0k tokens/s  0:00:05 left"


@pytest.mark.parametrize("done", [False, True])
def test_only_what_is_not_complete_is_said_to_be_trained(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], done: bool
) -> None:
    planned = plan(Project(Path(__file__).parents[1], tmp_path), Choices("mdlm", "lm1b", "smoke"))
    planned.run.mkdir(parents=True)
    if done:
        (planned.run / "completed.json").touch()
    with Reporter().training(planned):
        pass
    assert capfd.readouterr().err == ("" if done else "training MDLM on lm1b (smoke)\n")


def test_a_log_has_a_line_a_stage(capfd: pytest.CaptureFixture[str]) -> None:
    with bars() as report:
        for done in (3, 7):
            report("a train documents", done, 7)
        report("a corpus", 1, 1)
    assert capfd.readouterr().err == "a train documents: 7\na corpus\n"


def test_a_stage_that_ends_twice_has_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with bars("bytes") as report:
        for done in (3, 7, 7):
            report("a file", done, 7)
        for _ in range(2):
            report("an empty file", 0, 0)
    assert capfd.readouterr().err == "a file: 7\nan empty file: 0\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_names_are_no_markup_and_act_on_no_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with bars() as report:
        report("x[/b].txt", 1, 1)
        report("y[red]\x1b]0;z\x07", 1, 1)
    said = capfd.readouterr().err
    assert "x[/b].txt" in said
    assert "y[red]" in said
    assert "\x1b]0;" not in said

"""A path that is none is refused in one line by every command that takes one."""

import re
import sys
from pathlib import Path

import pytest

from harness.cli import main

SOURCE = Path(__file__).parents[2]
# Each command that takes a path, and where it stands; {} is the path.
TAKING = [
    "status {}", "logs {}", "audit {}", "diff {} .", "diff . {}", "report {}", "report . -o {}",
    "export {} -o x", "export . -o {}", "export . -o x --sign {}", "export . --verify {} --key x",
    "export . --verify x --key {}", "evaluate {}", "sample {}", "replicate {}", "record {}",
    "record . --source {}", "pin a/b --source {}", "lock cli --check --envs {}", "lock {} --check",
    "submit --time 10 --dry-run --matrix {}", "train mdlm_sdtt lm1b --dry-run --teacher {}",
    "plan mdlm_sdtt lm1b --teacher {}", "plan mdlm lm1b --mirror duo={}",
    "fetch duo --dry-run --mirror duo={}", "doctor --environment duo --mirror duo={}",
    "plan mdlm lm1b --name {}", "cancel {}", "--root {} status",
]  # fmt: skip
NONE = {
    "too long": "x" * 5000,
    "deep": "x/" * 4000,
    "NUL": "a\0b",
    "empty": "",
    "no UTF-8": "a\udcff",
    "below a file": "file/below",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_SOURCE", str(SOURCE))
    monkeypatch.setattr("harness.slurm.commands.alive", set)
    Path("file").write_text("")


def refused(words: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["harness", *(w.replace("{}", path) for w in words.split())])
        main.main()
    said = capsys.readouterr().err.splitlines()
    lines = [line for line in said if line and not line.startswith(("Usage:", "Try "))]
    assert len(lines) == 1, lines
    assert ended.value.code == 2, lines
    assert len(lines[0]) < 2100
    assert [path.name for path in Path().iterdir()] == ["file"]


@pytest.mark.parametrize("words", TAKING)
def test_what_is_no_path_is_one_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in NONE.values():
        refused(words, path, capsys)


@pytest.mark.parametrize("words", [*filter(re.compile(r"^[a-z]+ \{\}").match, TAKING), TAKING[-1]])
def test_a_file_is_no_folder(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused(words, "file", capsys)

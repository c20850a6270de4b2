"""Commands say things by one module alone, which lets nothing act on a terminal."""

import ast
import json
from pathlib import Path

import pytest

from harness.cli.saying import note, say, say_json, say_lines

CLI = Path(__file__).parents[2] / "harness" / "cli"
# The live line is redrawn by control characters of its own; its text is made printable there.
OWN = {"saying.py", "progress.py"}
HOSTILE = "a\x1b]0;title\x07\rb\u202ec\x9bd"
ESCAPED = "a\\x1b]0;title\\x07\\rb\\u202ec\\x9bd"


def writes(call: ast.Call) -> bool:
    """Whether a call writes to a terminal as it is told."""
    return ast.unparse(call.func) in {
        *("print", "click.echo", "click.secho", "echo", "secho"),
        *("sys.stdout.write", "sys.stderr.write", "os.write"),
    }


@pytest.mark.parametrize("path", sorted(CLI.glob("*.py")), ids=lambda path: path.name)
def test_only_the_one_module_writes(path: Path) -> None:
    calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    written = [call for call in calls if writes(call)]
    assert bool(written) == (path.name in OWN), [call.lineno for call in written]


def test_lines_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"{HOSTILE}\nno second line")
    note(HOSTILE)
    told = capsys.readouterr()
    assert told.out == f"{ESCAPED}\\nno second line\n"
    assert told.err == f"{ESCAPED}\n"


def test_line_ends_and_tabs_of_text_stay(capsys: pytest.CaptureFixture[str]) -> None:
    say_lines(f"{HOSTILE}\n\tmore")
    assert capsys.readouterr().out == f"{ESCAPED}\n\tmore\n"


def test_json_is_ascii_and_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    say_json({"told": [HOSTILE]})
    out = capsys.readouterr().out
    assert json.loads(out) == {"told": [HOSTILE]}
    assert out.isascii()
    assert out.replace("\n", "").isprintable()

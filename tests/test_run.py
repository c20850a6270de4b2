"""What a trainer says of itself is shown where it makes sense, and never believed."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import folder
from harness.cli.progress import line
from harness.project import Project
from harness.run import Progress, failure, last_line, read_progress


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"step": 1, "max_steps": 8}', "step 1/8"),
        (
            '{"step": 2, "max_steps": 8, "loss": 2, "seconds_left": 61}',
            "step 2/8  loss 2.000  0:01:01 left",
        ),
        ('{"step": 1, "max_steps": 8, "loss": NaN}', "step 1/8  loss nan"),
        ('{"step": 1, "max_steps": 8, "loss": 1' + "0" * 400 + "}", "step 1/8"),
        ('{"step": 1, "max_steps": 8, "loss": "1"}', "step 1/8"),
        ('{"step": 1, "max_steps": 8, "seconds_left": NaN}', "step 1/8"),
        ('{"step": 1, "max_steps": 8, "seconds_left": 1e999}', "step 1/8"),
        ('{"step": 1, "max_steps": 8, "tokens_per_second": 1e300}', "step 1/8"),
        ('{"step": 1' + "0" * 400 + ', "max_steps": 8}', None),
        ('{"step": -1, "max_steps": 8}', None),
        ('{"step": 1.5, "max_steps": 8}', None),
        ('{"step": 1}', None),
        ("[" * 4096, None),
        ("", None),
    ],
    ids=lambda value: str(value)[:60],
)
def test_progress_that_makes_no_sense_is_not_shown(
    tmp_path: Path, text: str, shown: str | None
) -> None:
    path = tmp_path / "progress.json"
    path.write_text(text)
    found = read_progress(path)
    assert (found and line(found)) == shown


ANY = st.one_of(
    st.integers(), st.floats(), st.text(max_size=3), st.booleans(), st.none(), st.just(10**400)
)


@given(st.dictionaries(st.sampled_from(list(Progress.__dataclass_fields__)), ANY))
def test_any_progress_is_a_short_line_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, object]
) -> None:
    path = tmp_path_factory.mktemp("progress") / "progress.json"
    path.write_text(json.dumps(value))
    found = read_progress(path)
    assert found is None or len(line(found)) < 120


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nothing"])
def test_progress_is_read_from_a_plain_file_alone(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "progress.json", tmp_path / "other.json"
    other.write_text('{"step": 1, "max_steps": 8}')
    {
        "link": lambda: path.symlink_to(other),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "nothing": lambda: None,
    }[kind]()
    assert read_progress(path) is None


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (b"", "it said nothing"),
        (b"one\n\n  \n", "one"),
        (
            b"KeyError: 'x'\n\nSet the environment variable HYDRA_FULL_ERROR=1 for more.\n",
            "KeyError: 'x'",
        ),
        (b"one\n\x1b[31mtwo\x07\r\n", "[31mtwo"),
        (b"\xff\n", "\ufffd"),
        (b"x" * 20_000, "x" * 300),
    ],
)
def test_a_logs_last_line_is_text_and_short(tmp_path: Path, log: bytes, said: str) -> None:
    path = tmp_path / "stderr.log"
    path.write_bytes(log)
    assert last_line(path) == said


def launch() -> Any:
    """As much of a launch as its failure needs."""
    project = Project(source=Path(__file__).parents[1], root=Path())
    recipe = SimpleNamespace(data="smoke-lm1b")
    return SimpleNamespace(project=project, plan=SimpleNamespace(recipe=recipe))


def test_a_run_that_asked_the_hub_is_told_which_pin_to_add(tmp_path: Path) -> None:
    log = tmp_path / folder.STDERR
    log.write_text("OSError: it looks like acme/tiny is not the path to a directory\n")
    found = failure(tmp_path, launch(), 1)
    assert found.exit_code == 1
    assert "asked the Hub for model acme/tiny" in str(found)
    assert "harness pin acme/tiny" in log.read_text().splitlines()[-1]


def test_a_failure_has_the_trainers_status_and_last_word(tmp_path: Path) -> None:
    (tmp_path / folder.STDERR).write_text("Traceback\nValueError: too small\n")
    found = failure(tmp_path, launch(), 7)
    assert found.exit_code == 7
    assert str(found).endswith("ended with status 7: ValueError: too small")


@pytest.mark.parametrize("status", [130, 143])
def test_an_interruption_says_how_to_go_on(tmp_path: Path, status: int) -> None:
    found = failure(tmp_path, launch(), status)
    assert found.exit_code == status
    assert "interrupted; the same command goes on" in str(found)

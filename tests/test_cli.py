"""The command line: fast to start, one line for a mistake, nothing done by a plan."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1]
HEAVY = ("torch", "pyarrow", "tokenizers", "huggingface_hub", "hydra", "numpy", "matplotlib")


def harness(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return python(root, "-m", "harness", "--root", str(root), *words)


def python(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-sP", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "HARNESS_SOURCE": str(SOURCE)},
    )


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "gpt", "lm1b"),
        ("plan", "di4c", "lm1b"),
        ("plan", "rdlm", "owt"),
        ("plan", "mdlm", "lm1b", "--devices", "3"),
        ("plan", "mdlm", "lm1b", "--lr", "1"),
        ("plan", "mdlm", "lm1b", "--devices", "many"),
        ("plan", "mdlm"),
        ("plan", "mdlm", "lm1b", "--wheels", "4"),
        ("train", "duo_dcd", "lm1b"),
        ("train", "mdlm", "lm1b", "--student-init", "scratch"),
        ("show", "mdlm", "c4"),
        ("audit", "nowhere"),
        ("audit", "."),
        ("nonsense",),
    ],
    ids=" ".join,
)
def test_a_mistake_is_refused_without_a_trace(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = harness(tmp_path, *words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith(("Usage:", "Try "))]
    assert len([line for line in said if line.strip()]) == 1, done.stderr
    assert list(tmp_path.iterdir()) == []


def root_file(root: Path) -> Path:
    (root / "file").touch()
    return root / "file" / "below"


def root_link(root: Path) -> Path:
    (root / "circle").symlink_to("circle")
    return root / "circle"


def root_name(root: Path) -> Path:
    return Path(f"{root}/bad\udcff")


def root_line(root: Path) -> Path:
    (root / "a\nb\x1b[31m").write_text("no folder")
    return root / "a\nb\x1b[31m" / "below"


@pytest.mark.parametrize("make", [root_file, root_link, root_name, root_line])
def test_a_root_that_cannot_be_is_one_line(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    (tmp_path / "cwd").mkdir()
    given = ("--root", str(make(tmp_path)), "prepare", "lm1b", "--profile", "smoke")
    done = python(tmp_path / "cwd", "-m", "harness", *given)
    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("harness: ")
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_closed_streams_are_no_failure(tmp_path: Path, closed: str) -> None:
    command = f'exec "$0" -sP -m harness --root "$1" plan mdlm lm1b {closed}'
    words = ["/bin/sh", "-c", command, sys.executable, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "HARNESS_SOURCE": str(SOURCE)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_is_one_line_and_status_130(tmp_path: Path) -> None:
    code = (
        "import harness.cli.main as m; from harness.cli import plan\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "plan.show_plan = stop\n"
        f"import sys; sys.argv[1:] = ['--root', {str(tmp_path)!r}, 'plan', 'mdlm', 'lm1b']\n"
        "m.main()"
    )
    done = python(tmp_path, "-c", code)
    assert done.returncode == 130
    assert done.stderr.strip().count("\n") == 0
    assert "harness: interrupted" in done.stderr


def test_a_plan_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from harness.cli.main import group\n"
        f"group(['--root', {str(tmp_path)!r}, 'plan', 'mdlm', 'lm1b'], standalone_mode=False)\n"
        f"sys.exit(','.join(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = python(tmp_path, "-c", code)
    assert done.stderr == "\n" or not done.stderr.strip(), done.stderr


def test_a_dry_run_is_the_plan(tmp_path: Path) -> None:
    choice = ("mdlm", "lm1b", "--profile", "smoke", "--json")
    one, two = harness(tmp_path, "plan", *choice), harness(tmp_path, "train", "--dry-run", *choice)
    assert one.returncode == two.returncode == 0
    assert one.stdout == two.stdout
    assert json.loads(one.stdout)["effective_batch"] == 16
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["list", "show mdlm lm1b", "show duo lm1b --profile smoke"])
def test_a_look_changes_nothing(tmp_path: Path, command: str) -> None:
    done = harness(tmp_path, *command.split())
    assert done.returncode == 0
    assert done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_deviation_is_shown_with_its_reason(tmp_path: Path) -> None:
    shown = harness(tmp_path, "show", "mdlm", "lm1b").stdout
    added = next(line for line in shown.splitlines() if "loader.num_workers" in line)
    assert added.startswith("+ ")
    assert added.endswith("  loader.num_workers=4   [host-independent-workers]")
    assert "\n[host-independent-workers] the default is the host's core count" in shown


def test_what_a_launch_lacks_is_told_before_anything_is_built(tmp_path: Path) -> None:
    done = harness(tmp_path, "train", "mdlm", "lm1b")
    assert done.returncode == 2
    assert done.stderr.startswith("harness: mdlm on lm1b: ")
    assert "run 'harness prepare lm1b'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []

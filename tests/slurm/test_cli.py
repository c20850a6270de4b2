"""What a user may mistake in the commands for Slurm is refused in one line."""

import json
from pathlib import Path

import pytest
from command_line import harness

SMOKE = ("mdlm", "lm1b", "--profile", "smoke", "--time", "10")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("submit", "--time", "10"), "give MODEL and DATASET, or --matrix FILE"),
        (("submit", *SMOKE, "--matrix", "x.yaml"), "give MODEL and DATASET, or --matrix FILE"),
        (("submit", "mdlm", "--time", "10"), "Missing argument 'DATASET'"),
        (("submit", "mdlm", "lm1b"), "Missing option '--time'"),
        (("submit", *SMOKE, "--no-resume"), "--no-resume: a job that is put back"),
        (("submit", *SMOKE, "--sbatch", "x"), "expected NAME=VALUE"),
        (("submit", *SMOKE, "--save-seconds", "600"), "leaves no time to train"),
        (("submit", "--time", "10", "--matrix", "x.yaml", "--name", "a"), "of one launch"),
        (("submit", "--time", "10", "--matrix", "x.yaml"), "x.yaml: not found"),
        (("plan",), "give MODEL and DATASET, or --all"),
        (("plan", "--all", "mdlm", "lm1b"), "give MODEL and DATASET, or --all"),
        (("plan", "--all", "--name", "a"), "of one launch"),
        (("logs", "nothing"), "no run folder, and no job"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    done = harness(tmp_path, *words, check=2)
    assert why in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_without_slurm_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = harness(tmp_path, "submit", *SMOKE, check=2)
    assert done.stderr == (
        "harness: sbatch, srun: not found; run this on a login node of a Slurm cluster\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_shows_the_table_and_makes_nothing(tmp_path: Path) -> None:
    words = ("submit", "mdlm_sdtt", "lm1b", "--profile", "smoke", "--time", "10", "--dry-run")
    lines = harness(tmp_path, *words).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["recipe", "mdlm", "mdlm_sdtt"]
    teacher, student = json.loads(harness(tmp_path, *words, "--json").stdout)
    assert student["after"] == [teacher["run"]]
    assert list(tmp_path.iterdir()) == []


def test_plan_says_when_the_network_is_shared(tmp_path: Path) -> None:
    two = ("--nodes", "2", "--per-device-batch", "8")
    assert "network      none" in harness(tmp_path, "plan", "mdlm", "lm1b").stdout
    shown = harness(tmp_path, "plan", "mdlm", "lm1b", *two).stdout
    assert "network      the hosts' own" in shown and "weaker isolation" in shown

"""The table of upstreams' own code run twice: read from run folders, honest about differences."""

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import harness
from run_folders import SMOKE, completed_run, reading, rewrite

from harness import conform
from harness.plan import Choices, plan
from harness.project import Project
from harness.recipes import load

__all__ = ["reading"]
SOURCE = Path(__file__).parents[1]
COMMIT = "c112c526d193436838c98d81455ee51f90309470"


def runs(project: Project, second: tuple[float, ...]) -> tuple[Path, Path]:
    """Two completed runs of one launch, an upstream's by their records."""
    first = completed_run(project, SMOKE)
    other = completed_run(project, conform.again(plan(project, SMOKE)), weights=second)
    for run in (first, other):
        rewrite(run / "identity.json", lambda r: r["source"].update(commit=COMMIT))
    rewrite(
        first / "provenance.json",
        lambda r: r["attempts"][0].update(
            started="2026-01-01T00:00:00Z", ended="2026-01-01T00:01:05Z"
        ),
    )
    return first, other


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize(("third", "verdict"), [(3.0, "equal"), (3.5, "DIFFER")])
def test_a_row_is_what_both_runs_recorded(tmp_path: Path, third: float, verdict: str) -> None:
    project = Project(source=SOURCE, root=tmp_path)
    first, other = runs(project, (1.0, 2.0, third))
    assert other.name == "mdlm-lm1b-smoke-seed42-again"
    row = conform.row(first, other)
    assert (row.model, row.commit, row.environment, row.steps) == ("mdlm", COMMIT, "smoke", 500)
    assert row.seconds == 65
    assert row.equal == (verdict == "equal")
    *_, tensors, seconds, told = row.cells()
    assert (seconds, told) == ("65", verdict)
    assert len(tensors.split(", ")) == (1 if row.equal else 2)
    assert len(row.cells()) == len(conform.HEADER)


def test_another_commit_than_the_pin_is_told() -> None:
    row = conform.Row("flm", COMMIT, False, "flm", 4, ("a" * 64, "a" * 64), 1.0)
    assert row.cells()[1] == "`c112c526d193`"
    assert replace(row, near=True).cells()[1] == "`c112c526d193` (not the pin)"


def test_every_model_of_an_upstream_has_a_row() -> None:
    project = Project(source=SOURCE, root=SOURCE)
    expected = {"flm", "duo", "mdlm", "candi", "rdlm", "fmlm", "duo_dcd", "mdlm_sdtt"}
    expected |= {"duo_di4c", "mdlm_di4c"}
    assert set(conform.models(project, load(SOURCE), "lm1b")) == expected


def test_a_conforming_launch_runs_the_upstream_on_a_cpu() -> None:
    recipe = load(SOURCE).recipe("mdlm", "lm1b", conform.PROFILE)
    planned = plan(Project(SOURCE, SOURCE), Choices("mdlm", "lm1b", profile=conform.PROFILE))
    assert recipe.source == "mdlm"
    assert "cpu" in recipe.adapters
    assert "model.n_blocks=2" in planned.argv
    assert planned.variables["PYTHONPATH"].endswith("/adapters/cpu")


def test_what_cannot_be_run_is_a_row_with_the_reason(tmp_path: Path) -> None:
    done = harness(tmp_path, "conform", "gpt", check=2)
    *_, last = done.stdout.splitlines()
    assert last.startswith("| gpt | - | - | - | - | - | model gpt: unknown; one of ")
    assert done.stderr == ""

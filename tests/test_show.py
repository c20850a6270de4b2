"""Published and launched overrides side by side: nothing that is launched is left out."""

from pathlib import Path

import pytest
from command_line import harness

from harness.cli.show import Row, line, rows
from harness.recipes import load

SOURCE = Path(__file__).parents[1]
CATALOGUE = load(SOURCE)
CASES = [
    (model, dataset, profile)
    for model, dataset in CATALOGUE.pairs()
    for profile in CATALOGUE.profiles()
]


@pytest.mark.parametrize(("model", "dataset", "profile"), CASES)
def test_every_override_is_shown_once_as_it_counts(model: str, dataset: str, profile: str) -> None:
    recipe = CATALOGUE.recipe(model, dataset, profile)
    _, *found = rows(CATALOGUE, recipe)
    counted = {o.partition("=")[0].lstrip("+"): o for o in recipe.overrides({})}
    assert sorted(row.launched for row in found) == sorted(counted.values())
    assert tuple(row.published for row in found if row.published) == recipe.published
    reasons = {*(d.name for d in recipe.deviations), f"profile {profile}"}
    for row in found:
        assert bool(row.changed_by) == (row.published != row.launched)
        assert row.changed_by in {"", *reasons}


def test_the_program_that_takes_another_s_place() -> None:
    first, *_ = rows(CATALOGUE, CATALOGUE.recipe("rdlm", "lm1b"))
    assert first == Row("main.py", "adapters/train_rdlm.py", "a-failure-has-a-status")
    first, *_ = rows(CATALOGUE, CATALOGUE.recipe("mdlm", "lm1b"))
    assert first == Row("main.py", "main.py")


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (Row("a=1", "a=1"), "  a=1      ="),
        (Row("a=1", "a=2", "it"), "~ a=1      a=2   [it]"),
        (Row("", "a=2", "it"), "+          a=2   [it]"),
        (Row("a.long=1", "a.long=2", "it"), "~ a.long=1\n           a.long=2   [it]"),
    ],
)
def test_a_line(row: Row, shown: str) -> None:
    assert line(row, 7) == shown


def test_where_the_upstream_s_own_scripts_differ(tmp_path: Path) -> None:
    shown = " ".join(harness(tmp_path, "show", "duo", "owt").stdout.split())
    assert "Published: algo.curriculum.gamma_min=-3.5, gamma_max=-1.75. " in shown
    assert "The upstream's own: -3.55 and -1.85 (scripts/train_owt_duo.sh)." in shown
    assert "-3.55" not in harness(tmp_path, "show", "duo", "lm1b").stdout

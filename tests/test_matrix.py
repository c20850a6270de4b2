"""Many launches: every teacher once, before its students; nothing else than what was asked for."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Refused
from harness.matrix import entries, every, read
from harness.plan import Choices
from harness.project import Project
from harness.recipes import load

SOURCE = Path(__file__).parents[1]
PROJECT = Project(source=SOURCE, root=Path("/nonexistent"))
TEMPLATE = Choices("", "", profile="smoke")


def written(folder: Path, value: object) -> Path:
    path = folder / "matrix.json"
    path.write_text(json.dumps({"schema_version": 1, **value}))  # type: ignore[dict-item]
    return path


def test_every_recipe_is_planned_with_its_teachers_before_it() -> None:
    for profile in ("smoke", "paper"):
        found = entries(PROJECT, every(PROJECT, Choices("", "", profile=profile)))
        pairs = [(one.plan.recipe.model, one.plan.recipe.dataset) for one in found]
        assert sorted(pairs) == sorted(load(SOURCE).pairs())
        runs = [one.plan.run for one in found]
        assert len(set(runs)) == len(runs)
        for place, one in enumerate(found):
            assert set(one.after) <= set(runs[:place])
            assert bool(one.after) == bool(one.plan.teachers)


def test_a_matrix_is_recipes_by_datasets_by_seeds(tmp_path: Path) -> None:
    path = written(tmp_path, {"recipes": ["mdlm", "duo"], "datasets": ["lm1b"], "seeds": [1, 2]})
    found = read(PROJECT, path, TEMPLATE)
    assert [(one.model, one.dataset, one.seed) for one in found] == [
        ("mdlm", "lm1b", 1), ("mdlm", "lm1b", 2), ("duo", "lm1b", 1), ("duo", "lm1b", 2),
    ]  # fmt: skip
    assert {one.profile for one in found} == {"smoke"}


def test_teachers_are_added_once_a_seed(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"recipes": ["mdlm_sdtt", "mdlm_di4c"], "datasets": ["lm1b"], "seeds": [1, 2],
         "profile": "smoke"},
    )  # fmt: skip
    found = entries(PROJECT, read(PROJECT, path, Choices("", "")))
    assert [one.plan.run.name for one in found] == [
        "mdlm-lm1b-smoke-seed1", "mdlm_sdtt-lm1b-smoke-seed1",
        "mdlm-lm1b-smoke-seed2", "mdlm_sdtt-lm1b-smoke-seed2",
        "mdlm_di4c-lm1b-smoke-seed1", "mdlm_di4c-lm1b-smoke-seed2",
    ]  # fmt: skip
    assert [run.name for run in found[4].after] == ["mdlm-lm1b-smoke-seed1"]


def test_a_teacher_that_was_given_is_not_trained() -> None:
    given = Choices("mdlm_sdtt", "lm1b", profile="smoke", teachers=(Path("teacher.ckpt"),))
    (found,) = entries(PROJECT, [given])
    assert found.after == ()


def test_yaml_and_all_recipes(tmp_path: Path) -> None:
    path = tmp_path / "matrix.yaml"
    path.write_text("schema_version: 1\nrecipes: all\nseeds: [3]\n")
    found = read(PROJECT, path, TEMPLATE)
    assert [(one.model, one.dataset) for one in found] == list(load(SOURCE).pairs())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "schema matrix"),
        ("[1]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [1, 1]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [1]\nlr: 3", "schema matrix"),
        ("schema_version: 1\nrecipes: [nope]\nseeds: [1]", "model nope: unknown"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [1]\ndatasets: [x]", "dataset x: unknown"),
        ("schema_version: 1\nrecipes: [rdlm]\nseeds: [1]\ndatasets: [owt]", "rdlm: has no recipe"),
        ("{a: [", "neither JSON nor YAML"),
        ("!!python/object/apply:os.system [id]", "neither JSON nor YAML"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [1.0]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [true]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [-1]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [1e3]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [010]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [1:30]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [1_0]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [4294967296]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]\nseeds: [" + "9" * 5000 + "]", "schema matrix"),
        ("schema_version: 1\nrecipes: [mdlm]\nrecipes: [duo]\nseeds: [1]", "stands twice"),
        ('{"schema_version": 1, "recipes": "all", "seeds": [1], "seeds": [2]}', "stands twice"),
        ("schema_version: 1\nrecipes: &a [mdlm]\ndatasets: *a\nseeds: [1]", "alias or a tag"),
        ("schema_version: 1\n<<: {recipes: [duo]}\nrecipes: [mdlm]\nseeds: [1]", "schema matrix"),
        ('!!int ""', "alias or a tag"),
        ("\x00", "neither JSON nor YAML"),
    ],
)
def test_a_matrix_that_names_no_launches_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "matrix.yaml"
    path.write_text(text)
    with pytest.raises(Refused, match=why) as caught:
        read(PROJECT, path, TEMPLATE)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=60))
def test_any_bytes_are_launches_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("matrix") / "matrix"
    path.write_bytes(data)
    with pytest.raises(Refused):
        read(PROJECT, path, TEMPLATE)


def test_a_matrix_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not found"):
        read(PROJECT, tmp_path / "nothing", TEMPLATE)

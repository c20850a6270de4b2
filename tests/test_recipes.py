"""Recipes render the published lists exactly, and refuse what they do not hold."""

import json
from pathlib import Path

import pytest

from harness.errors import Refused
from harness.recipes import Catalogue, fill, load, number

SOURCE = Path(__file__).parents[1]
LAUNCH = (
    *("data_cache", "tokenizer", "teacher", "adapted_teacher", "integral_cache", "output", "root"),
    *("per_device_batch_size", "devices", "nodes", "accumulation"),
    *("resume", "seed", "student_init"),
)
GOLDEN = sorted((Path(__file__).parent / "golden" / "recipes").glob("*.json"))


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load(SOURCE)


def test_every_recipe_has_a_golden_list(catalogue: Catalogue) -> None:
    assert {path.stem for path in GOLDEN} == {f"{m}-{d}" for m, d in catalogue.pairs()}
    assert len(GOLDEN) == 31


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_published_list_is_exact(catalogue: Catalogue, path: Path) -> None:
    golden = json.loads(path.read_text())
    recipe = catalogue.recipe(golden["model"], golden["dataset"])
    assert list(recipe.published) == golden["overrides"]
    assert recipe.upstream == golden["source"]
    mended = [d.entrypoint for d in recipe.deviations if d.entrypoint]
    assert [recipe.entrypoint] == (mended or [golden["entrypoint"]])


@pytest.mark.parametrize("profile", ["paper", "smoke", "study"])
def test_no_field_is_left_unfilled(catalogue: Catalogue, profile: str) -> None:
    for model, dataset in catalogue.pairs():
        recipe = catalogue.recipe(model, dataset, profile)
        overrides = recipe.overrides(dict.fromkeys(LAUNCH, "VALUE"))
        assert not [o for o in overrides if "{" in o]


def test_a_smoke_recipe_keeps_the_published_list_and_runs_another(catalogue: Catalogue) -> None:
    paper, smoke = (catalogue.recipe("mdlm", "lm1b", p) for p in ("paper", "smoke"))
    assert smoke.published == paper.published
    assert smoke.listed != paper.listed
    assert smoke.record() != paper.record()


@pytest.mark.parametrize(
    ("model", "dataset", "profile", "said"),
    [
        ("gpt", "lm1b", "paper", "model gpt: unknown; one of flm"),
        ("mdlm", "c4", "paper", "dataset c4: unknown; one of lm1b, owt"),
        ("rdlm", "owt", "paper", "rdlm on owt: the official RDLM release has no"),
        ("di4c", "lm1b", "paper", "use duo_di4c or mdlm_di4c"),
        ("mdlm", "lm1b", "fast", "profile fast: unknown; one of paper, smoke"),
    ],
)
def test_an_unknown_recipe_is_refused_in_one_line(
    catalogue: Catalogue, model: str, dataset: str, profile: str, said: str
) -> None:
    with pytest.raises(Refused, match=said) as refused:
        catalogue.recipe(model, dataset, profile)
    assert "\n" not in str(refused.value)


def test_launch_settings_of_the_distilled_models(catalogue: Catalogue) -> None:
    for model in ("duo_di4c", "mdlm_di4c"):
        lm1b, owt = (catalogue.recipe(model, d) for d in ("lm1b", "owt"))
        assert (lm1b.choices["student_init"], owt.choices["student_init"]) == (
            "teacher",
            "hf_small",
        )
        assert (lm1b.number("selected_step"), owt.number("selected_step")) == (20000, 50000)
        assert lm1b.choices["devices"] == 2
        assert lm1b.choices["per_device_batch"] == owt.choices["per_device_batch"] == 1
    assert catalogue.recipe("duo_dcd", "lm1b").choices["per_device_batch"] == 16
    assert catalogue.recipe("mdlm", "owt").choices["per_device_batch"] == 16
    assert catalogue.recipe("mdlm_sdtt", "owt").number("selected_step") == 70000


@pytest.mark.parametrize(
    ("value", "text"), [(1_000_000, "1000000"), (3e-4, "0.0003"), (6e-5, "6e-05"), (-3.5, "-3.5")]
)
def test_numbers_print_as_in_the_lists(value: float, text: str) -> None:
    assert number(value) == text


def test_filling_leaves_unknown_names() -> None:
    assert fill("{a}/{b}", {"a": "1"}) == "1/{b}"

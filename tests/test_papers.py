"""Published figures: each has a source, and a run is compared only where its setting is theirs."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import Refused
from harness.papers import Figure, Measured, Papers, Standing, load, while_training
from harness.recipes import load as load_recipes
from harness.text import printable

SOURCE = Path(__file__).parents[1]
PAPERS = load(SOURCE)
RECIPES = load_recipes(SOURCE)


def identity(model: str, dataset: str, profile: str = "paper") -> dict[str, Any]:
    return {"recipe": RECIPES.recipe(model, dataset, profile).record()}


@pytest.mark.parametrize("figure", PAPERS.figures, ids=lambda f: f"{f.source}-{f.model}-{f.value}")
def test_each_figure_has_its_source_and_a_recipe(figure: Figure) -> None:
    assert figure.source in PAPERS.sources
    assert figure.metric in PAPERS.tolerances
    assert figure.checked
    assert (figure.model, figure.dataset) in set(RECIPES.pairs())
    assert printable(figure.note) == figure.note
    if figure.metric == "generative_perplexity":
        assert figure.entropy is not None
        assert "sampling_steps" in figure.setting


def test_no_figure_stands_twice_in_one_source() -> None:
    keys = [
        (f.source, f.model, f.dataset, f.metric, tuple(sorted(f.setting.items())))
        for f in PAPERS.figures
    ]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(("field", "table"), [("metric", "tolerances"), ("source", "sources")])
def test_a_figure_that_names_what_is_not_there_is_refused(
    tmp_path: Path, field: str, table: str
) -> None:
    record = json.loads((SOURCE / "papers.json").read_text())
    del record[table][record["figures"][0][field]]
    (tmp_path / "papers.json").write_text(json.dumps(record))
    with pytest.raises(Refused, match=f"figures/0: {field} .* is not among its {table}"):
        load(tmp_path)


def test_every_source_is_used() -> None:
    assert {figure.source for figure in PAPERS.figures} == set(PAPERS.sources)


def bound(measured: float, run: Mapping[str, Any]) -> dict[float, tuple[Standing, str]]:
    """How each published bound of a run's model stands to one measured, by published value."""
    found = PAPERS.compare(run, {"perplexity_bound": Measured(measured, {})})
    return {
        one.figure.value: (one.standing, one.why)
        for one in found
        if one.figure.metric == "perplexity_bound"
    }


def test_a_paper_run_is_compared_with_the_figure_of_its_own_setting() -> None:
    found = bound(23.5, identity("mdlm", "owt"))
    assert found[23.21] == (Standing.WITHIN, "")
    assert bound(24.5, identity("mdlm", "owt"))[23.21] == (Standing.OUTSIDE, "")


def test_packing_and_steps_must_be_the_published_ones() -> None:
    found = bound(31.9, identity("mdlm", "lm1b"))
    assert found[31.8] == (Standing.WITHIN, "")
    assert found[27.04] == (Standing.INCOMPARABLE, "packing is packed, published is padded")
    assert "max steps is 1000000, published is 10000000" in found[23.00][1]
    assert bound(28.4, identity("rdlm", "lm1b"))[28.44] == (Standing.WITHIN, "")


def test_a_smoke_run_is_never_compared() -> None:
    for standing, why in bound(23.21, identity("mdlm", "owt", "smoke")).values():
        assert standing is Standing.INCOMPARABLE
        assert "profile is smoke" in why
        assert "builtin source" in why


def test_what_was_not_measured_is_said() -> None:
    found = PAPERS.compare(identity("flm", "owt"), {})
    assert {one.standing for one in found} == {Standing.INCOMPARABLE}
    assert {one.why for one in found} == {"the run has no generative perplexity"}
    assert all(one.measured is one.difference is None for one in found)


def test_an_evaluation_must_have_sampled_as_published() -> None:
    setting = {"sampling_steps": 1024, "sampler": "ancestral", "precision": "float64"}
    evaluated = Measured(77.0, {**setting, "evaluator": "gpt2-large"})
    found = PAPERS.compare(identity("duo", "owt"), {"generative_perplexity": evaluated})
    ancestral = [one for one in found if one.figure.value == 77.69]
    assert {one.standing for one in ancestral} == {Standing.WITHIN}
    others = [one for one in found if one.figure.setting.get("sampler") == "greedy_tail"]
    assert others
    assert {one.standing for one in others} == {Standing.INCOMPARABLE}


def test_a_figure_nobody_read_is_not_compared() -> None:
    unread = tuple(replace(figure, checked=False) for figure in PAPERS.figures)
    papers = Papers(PAPERS.tolerances, PAPERS.packing, PAPERS.sources, unread)
    found = papers.compare(identity("mdlm", "owt"), {"perplexity_bound": Measured(23.21, {})})
    assert {one.standing for one in found} == {Standing.INCOMPARABLE}


def test_a_trainers_metric_under_the_papers_name() -> None:
    assert while_training({"validation_perplexity": 9.0, "loss": 1.0}) == {
        "perplexity_bound": Measured(9.0, {})
    }
    assert while_training({}) == {}

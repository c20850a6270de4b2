"""Every recipe's smoke launch, its teachers included, to a result that its audit confirms."""

import json
from pathlib import Path

import pytest
from command_line import SOURCE, harness

from harness.recipes import load

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
CATALOGUE = load(SOURCE)
UPSTREAMS = [pair for pair in CATALOGUE.pairs() if CATALOGUE.recipe(*pair).data in ("lm1b", "owt")]


@pytest.mark.parametrize(("model", "dataset"), UPSTREAMS)
def test_it_trains_to_a_result(first: tuple[Path, str], model: str, dataset: str) -> None:
    root, _ = first
    fields = CATALOGUE.recipe(model, dataset, "smoke").fields
    chain = ("--with-teacher",) if "teacher_family" in fields else ()
    command = ("train", model, dataset, "--profile", "smoke", *chain)
    result = json.loads(harness(root, *command, "--json").stdout)
    assert result["checkpoint"]["step"] == fields.get("selected_step", fields["max_steps"])


def test_all_of_them_hold(first: tuple[Path, str]) -> None:
    root, _ = first
    done = harness(root, "audit", str(root / "runs"), "--json")
    runs = json.loads(done.stdout)["runs"]
    assert len(runs) >= len(UPSTREAMS)


@pytest.mark.parametrize("model", ["mdlm_sdtt", "duo_dcd", "mdlm_di4c", "fmlm", "rdlm"])
def test_it_is_sampled_from(first: tuple[Path, str], model: str) -> None:
    run = first[0] / "runs" / f"{model}-lm1b-smoke-seed42"

    def drawn() -> str:
        options = ("--count", "2", "--steps", "4", "--json")
        return harness(first[0], "sample", str(run), *options).stdout

    rows = [json.loads(line) for line in drawn().splitlines()]
    assert [len(row["ids"]) for row in rows] == [128, 128]
    assert rows == [json.loads(line) for line in drawn().splitlines()]

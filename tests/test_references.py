"""A name in `recipes.json` that leads nowhere is refused, with its field, wherever it stands."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.argv import argument_list
from harness.errors import Refused
from harness.recipes import load
from harness.references import faults

SOURCE = Path(__file__).parents[1]
TEXT = (SOURCE / "recipes.json").read_text()


def test_every_name_of_ours_leads_somewhere() -> None:
    assert list(faults(json.loads(TEXT))) == []


FAULTS: dict[str, Callable[[Any], object]] = {
    "models/mdlm/source: x": lambda t: t["models"]["mdlm"].update(source="x"),
    "models/mdlm: has no source": lambda t: t["models"]["mdlm"].pop("source"),
    "models/fmlm/inherits: x": lambda t: t["models"]["fmlm"].update(inherits="x"),
    "models: mdlm of mdlm: a circle": lambda t: t["models"]["mdlm"].update(inherits="mdlm"),
    "models/mdlm/overrides: x": lambda t: t["models"]["mdlm"]["overrides"].append("@x"),
    "fragments/smoke: x": lambda t: t["fragments"]["smoke"].append("@x"),
    "fragments: smoke of smoke": lambda t: t["fragments"]["smoke"].append("@smoke"),
    "families/masked_mdlm: x": lambda t: t["families"].update(masked_mdlm="x"),
    "ambiguous/di4c: x": lambda t: t["ambiguous"]["di4c"].append("x"),
    "mismatches/0/applies/datasets: x": lambda t: t["mismatches"][0]["applies"].update(
        datasets=["x"]
    ),
    "deviations/0/applies/models: x": lambda t: t["deviations"][0]["applies"].update(models=["x"]),
    "profiles/smoke/datasets: x": lambda t: t["profiles"]["smoke"]["datasets"].update(x={}),
    "profiles/smoke/sources: x": lambda t: t["profiles"]["smoke"]["sources"].update(x={}),
    "profiles/smoke/sources/mdlm/append: x": (
        lambda t: t["profiles"]["smoke"]["sources"]["mdlm"].update(append=["@x"])
    ),
}


@pytest.mark.parametrize("said", FAULTS)
def test_a_name_that_leads_nowhere_is_one_line(tmp_path: Path, said: str) -> None:
    tables = json.loads(TEXT)
    FAULTS[said](tables)
    (tmp_path / "recipes.json").write_text(json.dumps(tables))
    with pytest.raises(Refused, match=rf"recipes\.json: {said}"):
        load(tmp_path)


def test_a_change_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    tables = json.loads(TEXT)
    tables["profiles"]["smoke"]["sources"]["mdlm"]["set"]["modle"] = "tiny"
    (tmp_path / "recipes.json").write_text(json.dumps(tables))
    with pytest.raises(Refused, match="sets modle, which is not in the list of mdlm"):
        load(tmp_path).recipe("mdlm", "lm1b", "smoke")


def test_a_placeholder_that_nothing_fills_is_refused() -> None:
    record = dict(load(SOURCE).recipe("mdlm", "lm1b").record())
    choices = {
        **{"devices": 1, "nodes": 1, "per_device_batch": 1, "accumulation": 1, "seed": 1},
        **{"resume": True, "student_init": None},
    }
    record["profile_additions"] = ["x={sead}"]
    with pytest.raises(Refused, match=r"x=\{sead\}: nothing fills \{sead\}"):
        argument_list(record, **choices)  # type: ignore[arg-type]
    record["profile_additions"] = ["x=${model}", "y={a:1}"]
    assert argument_list(record, **choices)[-2:] == ("x=${model}", "y={a:1}")  # type: ignore[arg-type]

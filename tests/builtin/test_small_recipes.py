"""Every recipe of the small profiles composes on the built-in trees, as its trainer will see it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from ensemble import settings

from harness.inside.compose import compose
from harness.plan import Choices, Plan, plan
from harness.project import Project
from harness.recipes import load

SOURCE = Path(__file__).parents[2]
CATALOGUE = load(SOURCE)
ROOT = Path("/nonexistent")
SMALL = [(name, *pair) for name in ("smoke", "study") for pair in CATALOGUE.pairs()]
ROUNDS = [one for one in SMALL if "rounds" in CATALOGUE.recipe(*one[1:]).fields]


def planned(profile: str, model: str, dataset: str) -> Plan:
    families = CATALOGUE.recipe(model, dataset).teacher_families
    teachers = tuple(Path("teacher.ckpt") for _ in families)
    choices = Choices(model, dataset, profile=profile, teachers=teachers)
    return plan(Project(source=SOURCE, root=ROOT), choices, CATALOGUE)


def composed(one: Plan) -> Any:
    request = {
        "config_dir": str(SOURCE / "builtin" / one.recipe.config_dir),
        "config_name": one.recipe.config_name,
        "overrides": list(one.overrides),
        "devices": one.devices,
    }
    return yaml.safe_load(compose(request))


@pytest.mark.parametrize(("profile", "model", "dataset"), SMALL)
def test_it_composes(profile: str, model: str, dataset: str) -> None:
    one = planned(profile, model, dataset)
    fields = one.recipe.fields
    assert one.recipe.source == ("ensemble" if dataset == "jaweb" else "builtin")
    assert (SOURCE / "builtin" / one.recipe.entrypoint).is_file()
    config = composed(one)
    if dataset == "jaweb":
        settings.check(config)
        assert config["smoke_updates"] == fields["max_steps"]
        assert config["arm"] in (None, f"{fields.get('pool')}-{fields['member']}")
        return
    assert config["model"]["name"] == "tiny"
    assert config["model"]["length"] == fields["sequence_length"]
    if model == "rdlm":  # which has names of its own
        assert config["training"]["n_iters"] == fields["max_steps"]
        assert config["training"]["batch_size"] == fields["global_batch"]
        assert config["accelerator"] == "cpu"
        return
    assert config["trainer"]["max_steps"] == fields["max_steps"]
    assert config["trainer"]["accelerator"] == "cpu"
    assert config["loader"]["global_batch_size"] == fields["global_batch"]
    if "teacher_blocks" in fields:
        assert config["model"]["n_blocks"] == fields["teacher_blocks"]


@pytest.mark.parametrize(("profile", "model", "dataset"), ROUNDS)
def test_its_rounds_fill_its_steps(profile: str, model: str, dataset: str) -> None:
    fields = CATALOGUE.recipe(model, dataset, profile).fields
    assert fields["rounds"] * fields["steps_per_round"] == fields["max_steps"]
    assert fields.get("selected_step", fields["max_steps"]) % fields["steps_per_round"] == 0


@pytest.mark.parametrize(("profile", "model", "dataset"), SMALL)
def test_it_saves_what_is_selected(profile: str, model: str, dataset: str) -> None:
    fields = CATALOGUE.recipe(model, dataset, profile).fields
    selected = fields.get("selected_step", fields["max_steps"])
    assert selected <= fields["max_steps"]
    assert selected % fields["checkpoint_every"] == 0

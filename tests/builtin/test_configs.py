"""Every published override list of a recipe fits the built-in trainers' configurations."""

import json
import re
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

ROOT = Path(__file__).parents[2]
TREES = {
    "rdlm": "configs_rdlm",
    "sdtt": "configs_rounds",
    "di4c": "configs_rounds",
    "ensemble": "ensemble/configs",
}
VALUES = {
    "per_device_batch_size": "64",
    "devices": "8",
    "nodes": "1",
    "accumulation": "1",
    "resume": "true",
    "seed": "42",
}
LISTS = sorted((ROOT / "tests" / "golden" / "recipes").glob("*.json"))
MISSING = {"rdlm": ["data.tokenizer_name_or_path=/tokenizer"]}  # its trainer names none


def filled(override: str) -> str:
    """With a value of the right kind for each placeholder."""
    return re.sub(r"\{(\w+)\}", lambda match: VALUES.get(match[1], f"/{match[1]}"), override)


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_published_overrides_compose_and_take_effect(path: Path) -> None:
    published = json.loads(path.read_text())
    tree = ROOT / "builtin" / TREES.get(published["source"], "configs")
    overrides = [filled(override) for override in published["overrides"]]
    with initialize_config_dir(str(tree), version_base=None):
        config = compose("config", [*overrides, *MISSING.get(published["source"], [])])
    OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    groups = {"data", "model", "algo", "lr_scheduler", "parameterization", "exp", "optim"}
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        if key in groups - {"parameterization"} or key.startswith("hydra."):
            continue
        found = OmegaConf.select(config, key)
        if key == "parameterization" and not isinstance(found, str):
            continue
        assert found == OmegaConf.create(f"x: {value}").x, override


def test_a_misspelt_name_is_refused() -> None:
    with (
        initialize_config_dir(str(ROOT / "builtin" / "configs"), version_base=None),
        pytest.raises(Exception, match="max_stepz"),
    ):
        compose("config", ["trainer.max_stepz=1"])

"""A launch sees the adapters its recipe names, and its identity has the digest of those alone."""

import json
import shutil
from pathlib import Path

import pytest

from harness import adapters, places
from harness.errors import Refused
from harness.identity import tree_digest
from harness.plan import Choices, plan
from harness.project import Project
from harness.recipes import load

SOURCE = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose adapters and locks a test may change."""
    for name in ("adapters", "envs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCE / name, tmp_path / "source" / name, ignore=ignored)
    for name in ("recipes.json", "upstreams.json", "pins.json"):
        shutil.copy(SOURCE / name, tmp_path / "source" / name)
    return Project(source=tmp_path / "source", root=tmp_path / "root")


def test_a_plan_mounts_what_the_recipe_names(project: Project) -> None:
    planned = plan(project, Choices("duo", "lm1b"))
    shown = {m.target for m in planned.mounts if m.target.startswith(places.ADAPTERS)}
    names = ("README.md", "duo_integral.py", "flash_attn", "train_duo.py")
    assert shown == {f"{places.ADAPTERS}/{name}" for name in names}
    assert planned.argv[1] == f"{places.ADAPTERS}/train_duo.py"


def test_the_digest_is_of_a_folder_of_exactly_those(project: Project, tmp_path: Path) -> None:
    folder = project.source / "adapters"
    copied = tmp_path / "copied"
    shutil.copytree(folder / "flash_attn", copied / "flash_attn")
    shutil.copy(folder / "README.md", copied)
    before = adapters.digest(project, ["flash_attn"])
    assert before == tree_digest(copied)
    (folder / "flash_attn" / "__pycache__").mkdir()
    (folder / "train_duo.py").write_text("another")
    (folder / "new.py").write_text("new")
    assert adapters.digest(project, ["flash_attn"]) == before
    (folder / "flash_attn" / "layers" / "rotary.py").write_text("another")
    assert adapters.digest(project, ["flash_attn"]) != before


def test_the_built_in_trainers_have_none(project: Project) -> None:
    catalogue = load(project.source)
    for model, dataset in catalogue.pairs():
        recipe = catalogue.recipe(model, dataset, "smoke")
        assert recipe.adapters == ()
        assert "adapters" not in recipe.record()
    # The digest in every record of the built-in trainers so far.
    sample = json.loads((SOURCE / "tests/golden/identity/v1.json").read_text())
    assert adapters.digest(project, ()) == sample["adapters"]


def test_an_absent_adapter_is_refused_by_name(project: Project) -> None:
    for refused in (
        lambda: adapters.digest(project, ["flash_attn", "absent"]),
        lambda: adapters.check(project, ["absent"], "smoke"),
    ):
        with pytest.raises(Refused, match="adapter absent: there is none of that name in .*"):
            refused()


def test_a_stand_in_never_hides_a_pinned_package(project: Project) -> None:
    adapters.check(project, ["flash_attn"], "smoke")
    path = project.source / "envs" / "smoke.json"
    lock = json.loads(path.read_text())
    lock["wheels"].append({**lock["wheels"][0], "name": "flash-attn"})
    path.write_text(json.dumps(lock))
    with pytest.raises(Refused, match=r"adapter flash_attn: would hide the flash-attn that envs/"):
        adapters.check(project, ["flash_attn"], "smoke")

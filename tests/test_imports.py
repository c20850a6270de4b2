"""The upstreams' environments: each has all that its upstream's code imports.

Where an environment is built here; `harness doctor --environment NAME` builds it.
"""

import os
from pathlib import Path

import pytest
from command_line import harness

from harness import nix, sources
from harness.environments import described, users
from harness.errors import HarnessError, Refused
from harness.imports import Found, check
from harness.mirrors import FOLDER
from harness.project import Project
from harness.recipes import load

SOURCE = Path(__file__).parents[1]
# Commits near the pinned ones, where the pinned ones are out of reach.
NEAR = {
    "flm": "d89a02f9aad7417b911a033b610bad04e79ab36f",
    "sdtt": "9172b86500126d4ca93bd5e204395c5062fdc7fd",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(source=SOURCE, root=tmp_path)


def mirrors(project: Project, name: str) -> dict[str, sources.Mirror]:
    """Where to have the source from; skips the test where it is not here."""
    if not sources.look(project, name).missing:
        return {}
    if not os.environ.get(FOLDER):
        pytest.skip(f"{name}'s source is not in the store, and {FOLDER} names no folder of mirrors")
    return {name: sources.Mirror(None, NEAR.get(name))}


@pytest.mark.e2e
@pytest.mark.parametrize("name", sorted(sources.pins(Project(SOURCE, SOURCE))))
def test_an_upstream_finds_all_that_it_imports(project: Project, name: str) -> None:
    environment = load(SOURCE).tables["sources"][name]["environment"]
    try:
        built = nix.realised(project, environment)
    except HarnessError as error:
        pytest.skip(str(error))
    if built is None:
        pytest.skip(f"environment {environment} is not built: harness doctor --environment {name}")
    found = check(project, environment, mirrors(project, name), lambda _: None)[name]
    assert [one for one in found if one.failed] == []
    assert {"torch", "numpy", "hydra"} <= {one.module for one in found}
    there = [one for one in found if not one.error]
    flash = {one.provider for one in there if one.module.startswith("flash_attn")}
    assert flash == {"adapters"}


def test_every_upstream_has_a_lock_of_its_own(project: Project) -> None:
    known = {one.name: one for one in described(project)}
    for name in sources.pins(project):
        entry = load(SOURCE).tables["sources"][name]
        one = known[entry["environment"]]
        assert one.users == users(project, one.name) == (name,)
        assert (one.python, one.platform) == ("3.11", "manylinux_2_28_x86_64")
        assert one.deviations


@pytest.mark.parametrize(("optional", "failed"), [(False, True), (True, False)])
def test_what_the_code_can_do_without_is_no_failure(optional: bool, failed: bool) -> None:
    one = Found("module", "", ("main.py:1",), optional, "environment", "ImportError: none")
    assert one.failed is failed


def test_an_environment_of_no_upstream_is_refused(project: Project) -> None:
    with pytest.raises(Refused, match="environment smoke: no upstream's code runs in it"):
        check(project, "smoke", {}, lambda _: None)


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    done = harness(tmp_path, "doctor", "--environment", "nowhere", check=2)
    assert done.stderr.startswith("harness: environment nowhere: no lock of it in envs/")


def test_environments_are_listed_with_their_deviations(tmp_path: Path) -> None:
    shown = harness(tmp_path, "list", "--environments").stdout
    assert "sdtt  (extends mdlm)" in shown
    assert "  - triton 2.3.1 instead of 2.2.0: torch 2.3.1, which the list pins too, needs" in shown

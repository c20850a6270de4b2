"""Pinning from a stand-in Hub: the commit of now, and a digest for every file."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from stand_in_hub import Files, StandIn, serving

from harness.cli.main import group
from harness.data import pinning, pins
from harness.data.hub import Repository
from harness.data.locking import only_one
from harness.data.places import Places
from harness.errors import HarnessError, Refused
from harness.project import Project

NOW, LATER = "a" * 40, "b" * 40
CONTENTS = {"config.json": b"{}", "tokenizer.json": b"[]", "model.safetensors": b"w" * 50}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    large = frozenset({"model.safetensors"})
    repositories = [
        Files("model", "owner/toy", NOW, dict(CONTENTS), large),
        Files("dataset", "owner/text", NOW, dict(CONTENTS), large),
    ]
    with serving(StandIn(repositories)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "source").mkdir()
    text = (Path(__file__).parents[2] / "pins.json").read_text()
    (tmp_path / "source" / "pins.json").write_text(text)
    upstreams = (Path(__file__).parents[2] / "upstreams.json").read_text()
    (tmp_path / "source" / "upstreams.json").write_text(upstreams)
    return Project(source=tmp_path / "source", root=tmp_path)


def _pin(project: Project, *words: str) -> str:
    command = group.get_command(None, "pin")  # type: ignore[arg-type]
    assert command is not None
    words = (*words, "--source", str(project.source))
    result = CliRunner().invoke(command, words, obj=project, catch_exceptions=False)
    return result.output


def _sha256(*names: str) -> dict[str, str]:
    return {name: hashlib.sha256(CONTENTS[name]).hexdigest() for name in names}


def test_a_model_is_pinned_with_every_digest(project: Project, hub: StandIn) -> None:
    before = pins.load(project.source)
    assert f"toy: owner/toy@{NOW}" in _pin(project, "owner/toy")
    after = pins.load(project.source)
    model = after.model("toy")
    assert (model.repo, model.revision, model.ids) == ("owner/toy", NOW, None)
    assert model.files == _sha256("config.json", "tokenizer.json")
    assert model.weights == _sha256("model.safetensors")
    assert after.datasets == before.datasets


def test_the_weights_are_not_fetched_for_a_pin(project: Project, hub: StandIn) -> None:
    _pin(project, "owner/toy")
    assert not [path for method, path, _, _ in hub.requests if path.startswith("/cdn/")]


def test_a_dataset_is_pinned_as_it_is(project: Project, hub: StandIn) -> None:
    _pin(project, "owner/text", "--kind", "dataset", "--key", "mine")
    raw = pins.load(project.source).repositories["mine"]
    assert raw.files == _sha256(*sorted(CONTENTS))


def test_pinning_the_same_again_changes_nothing(project: Project, hub: StandIn) -> None:
    _pin(project, "owner/toy")
    before = (project.source / "pins.json").read_bytes()
    assert "stands already in" in _pin(project, "owner/toy")
    assert (project.source / "pins.json").read_bytes() == before


def test_a_pin_is_never_moved_in_passing(project: Project, hub: StandIn) -> None:
    _pin(project, "owner/toy")
    hub.repositories[0].revision = LATER
    with pytest.raises(Refused, match="is already owner/toy@aaaaaaaaaaaa"):
        _pin(project, "owner/toy")
    _pin(project, "owner/toy", "--key", "toy-later")
    assert pins.load(project.source).model("toy-later").revision == LATER


def test_the_rest_of_the_file_stays_as_it_was(project: Project, hub: StandIn) -> None:
    before = json.loads((project.source / "pins.json").read_text())
    _pin(project, "owner/toy")
    after = json.loads((project.source / "pins.json").read_text())
    del after["models"]["toy"]
    assert after == before
    assert list(after["models"]) == list(before["models"])


def test_the_current_folder_is_the_checkout_unless_one_is_named(
    project: Project, hub: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tree that the command runs from lies in the Nix store, and is never written."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    monkeypatch.chdir(checkout)
    command = group.get_command(None, "pin")  # type: ignore[arg-type]
    assert command is not None

    def pin() -> None:
        CliRunner().invoke(command, ["owner/toy"], obj=project, catch_exceptions=False)

    before = (project.source / "pins.json").read_bytes()
    with pytest.raises(Refused, match="run this in a checkout"):
        pin()
    assert hub.requests == []
    (checkout / "pins.json").write_bytes(before)
    pin()
    assert (project.source / "pins.json").read_bytes() == before
    assert "toy" in pins.load(checkout).models


def test_processes_pin_at_once_without_losing_anything(project: Project) -> None:
    path = project.source / "pins.json"
    children = []
    for number in range(6):
        if (child := os.fork()) == 0:
            try:
                repository = Repository("model", f"owner/m{number}", NOW)
                entry = {"kind": "hub", "repo": repository.repo, "revision": NOW, "files": {}}
                pinning.add(path, f"m{number}", repository, entry)
                os._exit(0)
            except BaseException:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert {f"m{number}" for number in range(6)} <= pins.load(project.source).models.keys()


def test_a_pin_waits_for_no_fetch_that_runs(project: Project, hub: StandIn) -> None:
    """Both write into the Hub's cache."""
    lock = Places.of(project).lock("fetch")
    with only_one(lock, "this test"), pytest.raises(Refused, match="another process is at it"):
        _pin(project, "owner/toy")


@pytest.mark.parametrize("repo", ["a b", "https://huggingface.co/a/b", "a/b/c", "../x", ""])
def test_what_is_no_repository_is_refused(project: Project, hub: StandIn, repo: str) -> None:
    with pytest.raises(Refused, match="write NAME or OWNER/NAME"):
        _pin(project, repo)
    assert hub.requests == []


@pytest.mark.parametrize("key", ["a/../b\n", "a b", "a\n", ".", "é"])
def test_what_is_no_key_is_refused(project: Project, hub: StandIn, key: str) -> None:
    before = (project.source / "pins.json").read_bytes()
    with pytest.raises(Refused, match="give a --key of letters") as caught:
        _pin(project, "owner/toy", "--key", key)
    assert "\n" not in str(caught.value)
    assert hub.requests == []
    assert (project.source / "pins.json").read_bytes() == before


def test_a_key_that_fetch_takes_for_an_upstream_is_refused(project: Project, hub: StandIn) -> None:
    hub.repositories[0].repo = "s-sahoo/duo"
    with pytest.raises(Refused, match="pin duo: is an upstream's name, .* choose a --key"):
        _pin(project, "s-sahoo/duo")
    assert "harness fetch duo-weights" in _pin(project, "s-sahoo/duo", "--key", "duo-weights")


def test_a_name_over_a_line_end_replaces_no_file(project: Project, hub: StandIn) -> None:
    victim = project.root / "victim.txt"
    victim.write_text("mine")
    snapshot = Places.of(project).snapshot("model", "owner/toy", NOW)
    up = os.path.relpath(victim, snapshot)
    hub.repositories[0].files[f"a\n/../{up}"] = b"theirs"
    with pytest.raises(HarnessError, match="leaves the repository"):
        _pin(project, "owner/toy")
    assert victim.read_text() == "mine"
    assert not victim.is_symlink()


def test_a_small_file_that_changed_here_is_not_pinned(project: Project, hub: StandIn) -> None:
    _pin(project, "owner/toy")
    snapshot = Places.of(project).snapshot("model", "owner/toy", NOW)
    (snapshot / "config.json").resolve().write_bytes(b"[]")
    with pytest.raises(HarnessError, match="config.json: digest .* was removed, run again"):
        _pin(project, "owner/toy", "--key", "again")

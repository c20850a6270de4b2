"""Old environments: told from those in use, shown before they go, and nothing else goes."""

from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner
from test_lock import wheel

from harness import built, nix
from harness.cli.main import group
from harness.project import Project

from .conftest import MakeLock

pytestmark = pytest.mark.e2e


def cache(project: Project, *words: str, answer: str = "") -> str:
    command = group.get_command(None, "cache")  # type: ignore[arg-type]
    assert command is not None
    words = ("--environments", *words)
    result = CliRunner().invoke(command, words, obj=project, input=answer, catch_exceptions=False)
    return result.output


def test_old_environments_are_removed_after_a_preview(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    name = f"leaf{uuid4().hex}"  # what another run of this test made may still be rooted
    make_lock("one", wheel(tmp_path / "index", name, "1.0"))
    before = nix.realise(project, "one")
    assert "in use" in cache(project)
    assert "nothing to remove" in cache(project, "--remove")
    make_lock("one", wheel(tmp_path / "index", name, "2.0"))
    now = nix.realise(project, "one")

    found = built.survey(project)
    assert [(one.name, one.used) for one in found] == [("one", True), ("one", False)]
    theirs = built.only_theirs(built.old(found), found)
    assert before.path in theirs
    assert before.base.path not in theirs
    assert not theirs & set(now.closure)

    assert "remove these 1" in cache(project, "--remove", answer="n\n")
    assert before.path.exists()
    assert "removed 1" in cache(project, "--remove", answer="y\n")
    assert not any(path.exists() for path in theirs)
    assert all(path.exists() for path in now.closure)
    assert [one.used for one in built.survey(project)] == [True]


def test_a_link_that_leads_nowhere_is_old(project: Project) -> None:
    folder = nix.state() / "environments"
    folder.mkdir(parents=True)
    (folder / f"gone-{'0' * 64}").symlink_to("/nix/store/nothing")
    assert "old" in cache(project)
    cache(project, "--remove", "--yes")
    assert list(folder.iterdir()) == []

"""Our Nix archive digest is Nix's own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_folders import nested

from harness import trees
from harness.errors import Refused
from harness.nar import nar_sha256
from harness.sources import store_path

NAMES = st.text("abcXYZ019._-é ", min_size=1, max_size=6).filter(lambda n: n not in (".", ".."))
TREES = st.recursive(
    st.tuples(st.binary(max_size=40), st.booleans()) | st.text("ab/.", min_size=1, max_size=5),
    lambda inner: st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)


def build(path: Path, tree: object) -> None:
    if isinstance(tree, dict):
        path.mkdir()
        for name, inner in tree.items():
            build(path / name, inner)
    elif isinstance(tree, str):
        path.symlink_to(tree)
    else:
        data, executable = tree  # type: ignore[misc]
        path.write_bytes(data)
        path.chmod(0o755 if executable else 0o644)


@pytest.mark.e2e
@settings(max_examples=25, deadline=None)
@given(tree=TREES)
def test_any_tree_has_the_digest_nix_gives_it(
    tmp_path_factory: pytest.TempPathFactory, tree: object
) -> None:
    path = tmp_path_factory.mktemp("nar") / "tree"
    build(path, tree)
    nix = subprocess.run(
        ["nix", "--extra-experimental-features", "nix-command", "hash", "path", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert nar_sha256(path) == nix.stdout.strip()


def test_a_known_digest(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "hello").write_text("hello\n")
    assert nar_sha256(tmp_path / "tree") == "sha256-8rZj4G7p7f80xdR6Es9zkss4jol73O52CI0Xc1P5/t0="


@pytest.mark.parametrize("change", ["content", "mode", "name", "link", "added"])
def test_every_change_of_a_tree_changes_it(tmp_path: Path, change: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("a")
    (tree / "link").symlink_to("file")
    before = nar_sha256(tree)
    {
        "content": lambda: (tree / "file").write_text("b"),
        "mode": lambda: (tree / "file").chmod(0o755),
        "name": lambda: (tree / "file").rename(tree / "file2"),
        "link": lambda: ((tree / "link").unlink(), (tree / "link").symlink_to("other")),
        "added": lambda: (tree / "empty").mkdir(),
    }[change]()
    assert nar_sha256(tree) != before


def test_times_and_excluded_names_do_not_count(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("a")
    before = nar_sha256(tree)
    os.utime(tree / "file", (1, 1))
    (tree / "__pycache__").mkdir()
    assert nar_sha256(tree, exclude=frozenset({"__pycache__"})) == before
    shutil.rmtree(tree / "__pycache__")
    os.mkfifo(tree / "pipe")
    with pytest.raises(Refused, match="pipe"):
        nar_sha256(tree)


def test_a_tree_deeper_than_the_stack_is_refused(tmp_path: Path) -> None:
    nested(tmp_path, 1500)
    try:
        with pytest.raises(Refused, match="too deep for any source tree"):
            nar_sha256(tmp_path)
    finally:
        trees.remove(tmp_path / "d")


def test_the_store_path_of_a_digest() -> None:
    """Checked against `nix eval` of fetchGit on the pinned tree."""
    found = store_path("sha256-DaCjrR1ZpFO4vrzSbmP2HxpF90FxDL2MbzhEv55ts60=")
    assert found.name.endswith("-source")
    assert len(found.name) == 32 + len("-source")

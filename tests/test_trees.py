"""Folders that somebody else filled: however deep, and whatever links are in them."""

import os
from pathlib import Path

import pytest
from run_folders import nested

from harness import trees


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with files, links out of it and folders within folders."""
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "file").write_text("precious")
    tree = tmp_path / "tree"
    for name in ("a/b/c", "a/x", "y"):
        (tree / name).mkdir(parents=True)
    (tree / "a" / "file").write_text("x")
    (tree / "a" / "b" / "link").symlink_to(tmp_path / "host")
    (tree / "link").symlink_to(tmp_path / "host" / "file")
    os.mkfifo(tree / "a" / "pipe")
    return tree


def precious(tmp_path: Path) -> bool:
    return (tmp_path / "host" / "file").read_text() == "precious"


def test_folders_come_before_those_in_them_and_links_are_none(tree: Path) -> None:
    found = [path.relative_to(tree).as_posix() for path in trees.folders(tree)]
    assert sorted(found) == [".", "a", "a/b", "a/b/c", "a/x", "y"]
    assert all(found.index(str(Path(name).parent)) < found.index(name) for name in found[1:])


def test_what_is_closed_is_told_and_not_entered(tree: Path) -> None:
    found = {path.relative_to(tree).as_posix() for path in trees.folders(tree, frozenset("b"))}
    assert found == {".", "a", "a/b", "a/x", "y"}
    inner = tree / "a" / "b"  # what one asks for is entered, whatever its name
    assert list(trees.folders(inner, frozenset("b"))) == [inner, inner / "c"]


def test_a_tree_of_any_depth_is_walked(tmp_path: Path) -> None:
    nested(tmp_path, 1500)
    found = list(trees.folders(tmp_path))
    trees.remove(tmp_path / "d")  # pytest's own removal recurses
    assert len(found) == 1501


def test_a_folder_is_removed_and_no_link_followed(tree: Path, tmp_path: Path) -> None:
    trees.remove(tree)
    assert not tree.exists()
    assert precious(tmp_path)
    trees.remove(tree)  # not there


def test_a_link_is_not_removed_as_a_folder(tmp_path: Path, tree: Path) -> None:
    (tmp_path / "alias").symlink_to(tmp_path / "host")
    with pytest.raises(OSError, match="Not a directory"):
        trees.remove(tmp_path / "alias")
    assert precious(tmp_path)


def test_a_tree_deeper_than_any_path_is_removed(tree: Path, tmp_path: Path) -> None:
    nested(tree / "a", 5000)
    trees.remove(tree)
    assert not tree.exists()
    assert precious(tmp_path)


def test_what_its_owner_may_not_write_is_removed(tree: Path) -> None:
    for name in ("a/b", "a", "y"):
        (tree / name).chmod(0)
    trees.remove(tree)
    assert not tree.exists()


def test_a_scratch_folder_vanishes_whatever_is_in_it() -> None:
    with pytest.raises(KeyError), trees.scratch("harness-test-") as folder:
        nested(folder, 3000)
        raise KeyError
    assert not folder.exists()

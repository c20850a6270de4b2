"""The trees a run's code comes from: what is not part of the identity is not shown either."""

import py_compile
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sandbox_base

from harness import places, sandbox
from harness.identity import tree_digest
from harness.sandbox import Mount
from harness.sources import hidden

SOURCE = Path(__file__).parents[1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree whose byte code says something else than its source."""
    tree = tmp_path / "tree"
    (tree / "package").mkdir(parents=True)
    for name in ("word.py", "package/__init__.py"):
        (tree / name).write_text("said = 'source'\n")
    before = tree_digest(tree)
    other = tmp_path / "other.py"
    other.write_text("said = 'byte code'\n")
    for folder, stem in ((tree, "word"), (tree / "package", "__init__")):
        py_compile.compile(
            str(other),
            cfile=str(folder / "__pycache__" / f"{stem}.cpython-311.pyc"),
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    assert tree_digest(tree) == before
    return tree


def test_folders_of_byte_code_are_found_in_code_alone(tree: Path) -> None:
    mounts = [Mount(tree, target) for target in (places.SOURCE, places.ADAPTERS, places.DATA)]
    assert hidden(mounts) == (
        f"{places.ADAPTERS}/__pycache__",
        f"{places.ADAPTERS}/package/__pycache__",
        f"{places.SOURCE}/__pycache__",
        f"{places.SOURCE}/package/__pycache__",
    )


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_only_has_the_name_counts(tree: Path, kind: str) -> None:
    before = tree_digest(tree)
    cache = tree / "package" / "new" / "__pycache__"
    cache.parent.mkdir()
    empty = tree_digest(tree)
    assert empty != before
    if kind == "link":
        cache.symlink_to(tree.parent)
    else:
        cache.write_text("")
    assert tree_digest(tree) != empty
    assert f"{places.SOURCE}/package/new/__pycache__" not in hidden([Mount(tree, places.SOURCE)])


@pytest.mark.e2e
def test_byte_code_is_not_what_runs(base: Path, tree: Path) -> None:
    box = sandbox_base.box(base, Mount(tree, places.SOURCE))
    code = f"import sys; sys.path[:0] = ['{places.SOURCE}']; import word, package; "
    command = [sandbox_base.PYTHON, "-c", code + "print(word.said, package.said)"]
    assert sandbox.run(box, command).stdout == b"byte code byte code\n"  # what would happen
    hiding = replace(box, hidden=hidden(box.mounts))
    assert sandbox.run(hiding, command).stdout == b"source source\n"
    write = [sandbox_base.PYTHON, "-c", f"open('{places.SOURCE}/__pycache__/x', 'w')"]
    assert b"Read-only" in sandbox.run(hiding, write).stderr


def test_the_linters_cache_is_in_no_digested_tree() -> None:
    """Else a run of the linter, beside an audit say, would make another launch of every one."""
    for path in ("builtin/main.py", "adapters/train_duo.py"):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", "check", "--show-settings", path],
            cwd=SOURCE, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert f'cache_dir = "{SOURCE}/.ruff_cache"' in done.stdout

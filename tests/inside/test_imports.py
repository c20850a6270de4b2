"""What an upstream's code imports is found in its files, and each import is tried."""

import io
import json
from pathlib import Path, PurePath
from typing import Any

import pytest

from harness.inside import imports


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project in `src/`, with a package of its own, beside another project."""
    files = {
        "src/one/main.py": (
            "import json\nimport torch.nn as nn\nfrom one.parts import deep\nimport side\n"
        ),
        "src/one/side.py": "from numpy import array, zeros as z\nfrom . import other\n",
        "src/one/parts/deep.py": (
            "def later():\n"
            "    import datasets\n"
            "try:\n"
            "    import fast\n"
            "except (AttributeError, ImportError):\n"
            "    import slow\n"
            "try:\n"
            "    import needed\n"
            "except ValueError:\n"
            "    pass\n"
        ),
        "src/one/idle.py": "import unused\n",
        "other/main.py": "import elsewhere\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_comes_from_outside_is_found_with_its_place(tree: Path) -> None:
    found = {
        (one.module, one.name): (one.place, one.optional)
        for one in imports.imports(tree, PurePath("src/one/main.py"))
    }
    deep = "src/one/parts/deep.py"
    assert found == {
        ("torch.nn", ""): ("src/one/main.py:2", False),
        ("numpy", "array"): ("src/one/side.py:1", False),
        ("numpy", "zeros"): ("src/one/side.py:1", False),
        ("datasets", ""): (f"{deep}:2", False),
        ("fast", ""): (f"{deep}:4", True),
        ("slow", ""): (f"{deep}:6", False),
        ("needed", ""): (f"{deep}:8", False),
        ("unused", ""): ("src/one/idle.py:1", True),
    }


def test_a_program_at_the_top_has_the_whole_tree(tree: Path) -> None:
    (tree / "main.py").write_text("import src\n")
    found = {one.module for one in imports.imports(tree, PurePath("main.py"))}
    assert {"elsewhere", "datasets"} <= found
    assert "src" not in found


@pytest.mark.parametrize(
    ("module", "name", "error"),
    [
        ("json", "", ""),
        ("json", "loads", ""),
        ("json", "tool", ""),  # a submodule, imported by nobody yet
        ("json", "*", ""),
        ("json", "nothing", "ModuleNotFoundError: No module named 'json.nothing'"),
        ("no_such_module", "", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_an_import_is_tried(module: str, name: str, error: str) -> None:
    assert imports.attempt(module, name)[1] == error


def test_a_module_that_ends_the_program_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quitter_for_this_test.py").write_text("print('noise')\nraise SystemExit('bye')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert imports.attempt("quitter_for_this_test", "") == ("", "SystemExit: bye")


def test_the_answer_holds_no_noise(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "other/loud_for_this_test.py").write_text("print('noise')\n")
    program = tree / "third/main.py"
    program.parent.mkdir()
    program.write_text("import loud_for_this_test\nimport nowhere_to_be_found\n")
    monkeypatch.syspath_prepend(str(tree / "other"))
    request = {"root": str(tree), "entrypoint": "third/main.py"}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request)))
    imports.main()
    answer: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [entry["module"] for entry in answer] == ["loud_for_this_test", "nowhere_to_be_found"]
    assert answer[0]["file"] == str(tree / "other/loud_for_this_test.py")
    assert answer[0]["error"] == ""
    assert answer[1]["places"] == ["third/main.py:2"]
    assert answer[1]["error"].startswith("ModuleNotFoundError")

"""Folders that a trainer filled: a launch goes on over them, a crate is made of them."""

import json
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import run_folders
from checkpoint_files import write
from fuzz.runs import whole_run
from fuzz.target import SOURCE

from harness import folder, resume
from harness.errors import HarnessError
from harness.export import crate
from harness.json_files import read_json
from harness.plan import Choices
from harness.project import Project
from harness.recipes import load as load_recipes


def _filled(data: bytes, output: Path, host: Path) -> None:
    """Fill a folder with the entries that a JSON list names: [kind, path, content]."""
    found: Any = read_json_bytes(data, output.parent)
    for kind, name, content in found if isinstance(found, list) else ():
        path = Path(os.path.normpath(output / str(name).strip("/")))
        if not path.is_relative_to(output) or path == output:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        match kind:
            case "link":
                path.symlink_to(host / str(content).strip("/"))
            case "second":
                path.hardlink_to(host / "checkpoints/0-2.ckpt")
            case "gone":
                path.unlink()
            case "pipe":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "checkpoint":
                step = content if isinstance(content, int) else None
                write(path, {"global_step": step, "state_dict": {}}, {})
            case _:
                path.write_text(str(content))


def read_json_bytes(data: bytes, folder: Path) -> object:
    """The JSON value in `data`, none of which anybody but this module wrote or changed."""
    (folder / "entries").write_bytes(data)
    try:
        return read_json(folder / "entries")
    finally:
        (folder / "entries").unlink()


def resume_over(data: bytes, scratch: Path) -> None:
    """A launch goes on over an output of such entries; what lies beside it stays as it is."""
    place = scratch / "resumed"
    shutil.rmtree(place, ignore_errors=True)
    host, output = place / "host", place / "run" / folder.OUTPUT
    for made in (host / "checkpoints", output):
        made.mkdir(parents=True)
    for step in (2, 3, 4):
        file = host / "checkpoints" / f"0-{step}.ckpt"
        write(file, {"global_step": step, "state_dict": {}}, {})
    before = {path: path.read_bytes() for path in host.rglob("*") if path.is_file()}
    with suppress(ValueError, TypeError, OSError, HarnessError):  # no entries, or two in one place
        _filled(data, output, host)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("harness.checkpoint._ask", run_folders.read_here)
            resume.prepare(place / "run", _in_rounds())
    finally:
        assert before == {path: path.read_bytes() for path in host.rglob("*") if path.is_file()}


@cache
def _in_rounds() -> Any:
    """What of a launch decides where it goes on: an upstream's, with rounds of two steps."""
    recipe = load_recipes(SOURCE).recipe("mdlm_sdtt", "lm1b")
    recipe = replace(recipe, fields={**recipe.fields, "steps_per_round": 2})
    planned = SimpleNamespace(recipe=recipe, choices=Choices("mdlm_sdtt", "lm1b"))
    project = Project(SOURCE, SOURCE)
    here = run_folders.environment(project)
    return SimpleNamespace(project=project, environment=here, plan=planned)


def export_named(data: bytes, scratch: Path) -> None:
    """A run has files of such names; its crate has them too, and nothing is written beside it."""
    root, out = scratch / "named", scratch / "crates"
    for made in (root, out):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
    run_ = root / "runs" / whole_run().name
    shutil.copytree(whole_run(), run_)
    with suppress(ValueError, TypeError, OSError, HarnessError):
        _filled(data, run_, root)
    run_folders.relist(run_)
    crate.write(Project(SOURCE, root), run_, out / "crate", None)
    assert [path.name for path in out.iterdir()] == ["crate"]
    for name in folder.scan(run_)[0]:
        if name != folder.LOCK:
            assert (out / "crate" / name).read_bytes() == (run_ / name).read_bytes()


def entries(*ones: tuple[str, str, object]) -> list[bytes]:
    return [json.dumps(ones).encode()]


def trapped() -> list[bytes]:
    """What a trainer leaves, each time with a trap in the place of some of it."""
    places = ("student_checkpoints", "checkpoints", *(name for _, name, _ in LEFT))
    traps = [(k, name, "checkpoints") for k in ("link", "second", "pipe") for name in places]
    return [
        seed
        for trap in traps
        for seed in entries(trap, *(e for e in LEFT if not f"{e[1]}/".startswith(f"{trap[1]}/")))
    ]


def unfit() -> list[bytes]:
    """A run without a file that every run has, and one with a file named as the crate's own."""
    needed = (folder.RECIPE, folder.ARGV, folder.CONFIG, folder.MODEL, folder.IDENTITY)
    changes = [
        *(("gone", name, "") for name in needed),
        *(("file", name, "x") for name in ("README.md", "ro-crate-metadata.json")),
    ]
    return [seed for change in changes for seed in entries(change)]


LEFT = (
    ("checkpoint", "checkpoints/0-2.ckpt", 2),
    ("checkpoint", "checkpoints/0-3.ckpt", 3),
    ("checkpoint", "checkpoints/last.ckpt", 3),
    ("checkpoint", "student_checkpoints/4.ckpt", 4),
)

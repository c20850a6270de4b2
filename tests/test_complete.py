"""What a trainer left is judged by what is in it."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_files import whole, write
from hypothesis import given
from hypothesis import strategies as st
from run_folders import launch, reading

from harness import folder, provenance
from harness.canonical import canonical_json
from harness.checkpoint import CheckpointReport
from harness.complete import (
    Unsupported,
    candidates,
    complete,
    final_metrics,
    held_step,
    metric_rows,
    selected_step,
)
from harness.project import Project
from harness.recipes import load
from harness.run import _write_records

__all__ = ["reading"]
SOURCE = Path(__file__).parents[1]
CATALOGUE = load(SOURCE)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("mdlm", ("checkpoints/last.ckpt",)),
        ("rdlm", ("checkpoints/checkpoint_50.pth",)),
        (
            "mdlm_sdtt",
            ("student_checkpoints/70000.ckpt", "checkpoints/0-70000.ckpt", "checkpoints/last.ckpt"),
        ),
        (
            "duo_di4c",
            ("student_checkpoints/20000.ckpt", "checkpoints/0-20000.ckpt", "checkpoints/last.ckpt"),
        ),
    ],
)
def test_the_selected_checkpoint(model: str, expected: tuple[str, ...]) -> None:
    assert candidates(CATALOGUE.recipe(model, "lm1b").fields) == expected


def test_the_selected_step() -> None:
    assert selected_step(CATALOGUE.recipe("mdlm", "lm1b").fields) == 1_000_000
    assert selected_step(CATALOGUE.recipe("mdlm_sdtt", "lm1b").fields) == 70_000


@given(st.lists(st.binary(max_size=60).map(lambda line: line.replace(b"\n", b"")), max_size=10))
def test_any_bytes_give_only_finite_numbers(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("metrics") / "metrics.jsonl"
    good = b'{"step": 3, "loss": 2.5}'
    path.write_bytes(b"\n".join([b'{"loss": NaN}', b'{"x": 1e999}', b'{"y": "z"}', *lines, good]))
    rows = list(metric_rows(path))
    assert rows[-1] == {"step": 3, "loss": 2.5}
    canonical_json(rows)
    assert final_metrics(path)["loss"] == 2.5


@pytest.mark.parametrize(
    "row",
    [
        '{"loss": 1' + "0" * 400 + "}",
        '{"loss": 9007199254740992}',
        '{"loss": -1e999}',
        '{"loss": true}',
        '{"\\ud800": 1}',
        '{"\\u001b[31m": 1}',
        "[" * 100_000,
    ],
    ids=lambda row: row[:20],
)
def test_what_no_record_can_hold_is_passed_over(tmp_path: Path, row: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"loss": 9007199254740991, "big": 1e20}}\n{row}\n')
    assert final_metrics(path) == {"loss": (1 << 53) - 1, "big": 1e20}
    canonical_json(final_metrics(path))


def test_no_metrics_file_is_no_metrics(tmp_path: Path) -> None:
    assert final_metrics(tmp_path / "none.jsonl") == {}


def test_a_report_is_what_completion_needs() -> None:
    assert {"step", "groups", "tensors"} <= set(CheckpointReport.__dataclass_fields__)


def finished(project: Project, step: int | None, value: float = 1.0, name: str = "last") -> Path:
    """Complete a run whose trainer left a checkpoint of that step and name; returns the run."""
    ready = launch(project)
    run = ready.plan.run
    with folder.locked(run):
        _write_records(run, ready)
        record = provenance.begin(run, ready)
        checkpoints = run / folder.OUTPUT / "checkpoints"
        checkpoints.mkdir(parents=True)
        state = {"state_dict": {"w": whole("float32", "0", 1)}, "global_step": step}
        write(checkpoints / f"{name}.ckpt", state, {"0": np.array([value], "<f4").tobytes()})
        provenance.end(run, record, 0)
        complete(run, ready)
    return run


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize(
    ("left", "why"),
    [
        ({"step": 499}, r"last.ckpt: holds step 499, the recipe's is 500; it was stopped before"),
        ({"step": 501}, r"last.ckpt: holds step 501, the recipe's is 500$"),
        ({"step": None}, r"last.ckpt: holds step None, the recipe's is 500$"),
        ({"step": 500, "value": math.inf}, r"state_dict/w is not finite \(1 tensors in all\)"),
        # What Lightning writes beside an older last.ckpt.
        ({"step": 500, "name": "last-v1"}, "ended well but left no checkpoints/last.ckpt"),
    ],
)
def test_a_clean_exit_is_no_evidence(tmp_path: Path, left: dict[str, Any], why: str) -> None:
    project = Project(source=SOURCE, root=tmp_path)
    with pytest.raises(Unsupported, match=why):
        finished(project, **left)
    (run,) = project.runs.iterdir()
    assert not (run / folder.COMPLETED).exists()
    assert not (run / folder.MODEL).exists()


@pytest.mark.usefixtures("reading")
def test_the_step_inside_is_the_evidence(tmp_path: Path) -> None:
    run = finished(Project(source=SOURCE, root=tmp_path), 500)
    assert folder.completed(run)["checkpoint"]["step"] == 500  # type: ignore[index]


def test_updates_beyond_those_counted() -> None:
    fields = CATALOGUE.recipe("rdlm", "lm1b").fields
    assert candidates(fields) == ("checkpoints/checkpoint_50.pth",)
    assert (selected_step(fields), held_step(fields)) == (1_000_000, 1_000_001)

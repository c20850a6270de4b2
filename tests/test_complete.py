"""What a trainer left is judged by what is in it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.canonical import canonical_json
from harness.checkpoint import CheckpointReport
from harness.complete import candidates, final_metrics, metric_rows, selected_step
from harness.recipes import load

CATALOGUE = load(Path(__file__).parents[1])


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

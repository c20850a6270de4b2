"""Differences of two checkpoints, told by place and size."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_files import SIZES, View, whole, write

from harness.inside import checkpoint
from harness.inside.compare import compare, differ
from harness.inside.formats import load
from harness.inside.tensors import DTYPES, contiguous


def compared(first: Path, second: Path) -> dict[str, Any]:
    a, b = load(first), load(second)
    return compare(a, checkpoint.measures(a.tensors), b, checkpoint.measures(b.tensors))


def test_the_first_and_the_largest_difference(tmp_path: Path) -> None:
    tree = {
        "a": whole("float32", "0", 2),
        "b": whole("float32", "1", 2),
        "c": whole("int64", "2", 1),
    }
    parts = ((1.0, 2.0), (3.0, 4.0)), ((1.0, 2.5), (3.0, -4.0))
    paths = []
    for name, (a, b) in zip("xy", parts, strict=True):
        data = {"0": struct.pack("<2f", *a), "1": struct.pack("<2f", *b), "2": bytes(8)}
        paths.append(write(tmp_path / name, tree, data))
    found = compared(*paths)
    assert found == {
        "schema_version": 1,
        "equal": False,
        "compared": 3,
        "differing": 2,
        "first": {
            "name": "a",
            "elements": 1,
            "largest": 0.5,
            "kinds": [["float32", [2]], ["float32", [2]]],
        },
        "largest": {"name": "b", "absolute": 8.0},
        "missing": [],
        "extra": [],
    }
    assert compared(paths[0], paths[0])["equal"] is True


def test_names_types_and_shapes(tmp_path: Path) -> None:
    first = write(
        tmp_path / "x",
        {"a": whole("float32", "0", 2), "b": whole("float32", "1", 2), "c": whole("int8", "2", 1)},
        {"0": bytes(8), "1": bytes(8), "2": b"x"},
    )
    second = write(
        tmp_path / "y",
        {"a": whole("int32", "0", 2), "b": whole("float32", "1", 1, 2), "d": whole("int8", "2", 1)},
        {"0": bytes(8), "1": bytes(8), "2": b"x"},
    )
    found = compared(first, second)
    assert (found["missing"], found["extra"], found["differing"]) == (["c"], ["d"], 2)
    assert found["first"]["kinds"] == [["float32", [2]], ["int32", [2]]]
    assert found["first"]["largest"] is None
    assert found["equal"] is False


def test_layouts_do_not_matter(tmp_path: Path) -> None:
    numbers = np.arange(700 * 700, dtype="<f4").reshape(700, 700)
    flat = write(tmp_path / "x", {"a": whole("float32", "0", 700, 700)}, {"0": numbers.tobytes()})
    turned = View("float32", "0", 490_000, 0, (700, 700), (1, 700))
    changed = numbers.copy()
    changed[699, 698] += 1
    other = write(tmp_path / "y", {"a": turned}, {"0": changed.T.tobytes()})
    assert compared(flat, other)["largest"] == {"name": "a", "absolute": 1.0}
    assert compared(flat, other)["first"]["elements"] == 1


PAIRS = [
    ("float16", 0x3C00, 0x4000, 1.0),
    ("bfloat16", 0x3F80, 0xBF80, 2.0),
    ("float64", 0x3FF0000000000000, 0, 1.0),
    ("float8_e4m3fn", 0x38, 0x7E, 447.0),
    ("float8_e4m3fn", 0x00, 0x01, 2**-9),
    ("float8_e4m3fnuz", 0x40, 0x7F, 239.0),
    ("float8_e5m2", 0x3C, 0x7B, 57343.0),
    ("float8_e5m2fnuz", 0x40, 0x7F, 57343.0),
    ("float8_e8m0fnu", 0x7F, 0x80, 1.0),
    ("int8", 0x80, 0x7F, 255.0),
    ("uint8", 0x80, 0x7F, 1.0),
    ("int64", 0x8000000000000000, 0x7FFFFFFFFFFFFFFF, float(2**64 - 1)),
    ("bool", 0, 1, 1.0),
    ("complex64", 0x4040000000000000, 0x40800000, 5.0),
    ("float32", 0x7FC00000, 0, None),
    ("float32", 0x7FC00000, 0x7FC00001, None),
    ("float32", 0x80000000, 0, 0.0),
]


@pytest.mark.parametrize(("dtype", "left", "right", "largest"), PAIRS)
def test_the_size_of_a_difference(dtype: str, left: int, right: int, largest: float | None) -> None:
    size = SIZES[dtype]
    both = [
        contiguous((1,), DTYPES[dtype], memoryview(bits.to_bytes(size, "little")))
        for bits in (left, right)
    ]
    found = differ(both[0], both[1])
    assert found.elements == 1
    assert found.largest == largest


def test_finite_differences_count_beside_others() -> None:
    kind = DTYPES["float32"]
    one = contiguous((2,), kind, memoryview(struct.pack("<2f", float("nan"), 1)))
    two = contiguous((2,), kind, memoryview(struct.pack("<2f", 0, 3)))
    assert differ(one, two).largest == 2.0
    assert differ(one, two).elements == 2

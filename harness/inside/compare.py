"""Where two checkpoints differ: which tensor first, how many, and by how much."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .formats import Loaded
from .tensors import Dtype, Measure, Tensor, blocks

SCHEMA_VERSION = 1
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """Of two tensors of one type and shape: elements that differ, and the largest difference.

    `largest` is None where every difference involves an element that is not finite.
    """

    elements: int
    largest: float | None


def compare(
    first: Loaded, digests: Mapping[str, Measure], second: Loaded, others: Mapping[str, Measure]
) -> dict[str, object]:
    """The document that `compare` prints; names in the order of their code points."""
    a, b = first.tensors, second.tensors
    common = sorted(a.keys() & b.keys())
    rows = [
        _row(name, a[name], b[name])
        for name in common
        if _kind(a[name]) != _kind(b[name]) or digests[name].sha256 != others[name].sha256
    ]
    sizes = {row["name"]: row["largest"] for row in rows if isinstance(row["largest"], float)}
    largest = max(sizes, key=lambda name: sizes[name], default=None)
    missing, extra = sorted(a.keys() - b.keys()), sorted(b.keys() - a.keys())
    return {
        "schema_version": SCHEMA_VERSION,
        "equal": not (rows or missing or extra),
        "compared": len(common),
        "differing": len(rows),
        "first": rows[0] if rows else None,
        "largest": None if largest is None else {"name": largest, "absolute": sizes[largest]},
        "missing": missing,
        "extra": extra,
    }


def _kind(tensor: Tensor) -> tuple[str, tuple[int, ...]]:
    return tensor.dtype.name, tensor.shape


def _row(name: str, a: Tensor, b: Tensor) -> dict[str, object]:
    row: dict[str, object] = {"name": name, "elements": None, "largest": None}
    row["kinds"] = [[t.dtype.name, list(t.shape)] for t in (a, b)]
    if _kind(a) == _kind(b):
        difference = differ(a, b)
        row.update(elements=difference.elements, largest=difference.largest)
    return row


def differ(a: Tensor, b: Tensor) -> Difference:
    """Count the elements of two tensors of one type and shape whose bits differ, and how far."""
    elements, largest = 0, -1.0
    # Blocks of two layouts are cut at different places, so that both are cut again here.
    for left, right in _aligned(a, b):
        size = a.dtype.size
        x, y = (np.frombuffer(side, np.uint8).reshape(-1, size) for side in (left, right))
        unequal = (x != y).any(axis=1)
        elements += int(unequal.sum())
        if unequal.any():
            far = _distance(x[unequal].tobytes(), y[unequal].tobytes(), a.dtype)
            largest = max(largest, float(far.max(initial=-1.0)))
    return Difference(elements, None if largest < 0 else largest)


def _aligned(a: Tensor, b: Tensor) -> Iterator[tuple[memoryview, memoryview]]:
    lefts, rights = blocks(a), blocks(b)
    left = right = memoryview(b"")
    while True:
        left = left or next(lefts, memoryview(b""))
        right = right or next(rights, memoryview(b""))
        size = min(len(left), len(right))
        if not size:
            return
        yield left[:size], right[:size]
        left, right = left[size:], right[size:]


def _distance(left: bytes, right: bytes, dtype: Dtype) -> Floats:
    """Absolute differences of elements, those that are not finite left out."""
    if not dtype.mask:
        # In unsigned arithmetic, where a 64-bit difference is still exact.
        code = f"<{'i' if dtype.name.startswith('int') else 'u'}{dtype.size}"
        x, y = np.frombuffer(left, code), np.frombuffer(right, code)
        word = np.dtype(dtype.word)
        up, down = x.view(word) - y.view(word), y.view(word) - x.view(word)
        far: Floats = np.where(x > y, up, down).astype(np.float64)
        return far
    with np.errstate(invalid="ignore", over="ignore"):
        distance: Floats = np.abs(_numbers(left, dtype) - _numbers(right, dtype))
    finite: Floats = distance[np.isfinite(distance)]
    return finite


def _numbers(data: bytes, dtype: Dtype) -> npt.NDArray[Any]:
    if dtype.name == "bfloat16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).astype("f8")
    if dtype.name.startswith("float8"):
        return _float8(dtype.name)[np.frombuffer(data, np.uint8)]
    if dtype.name == "complex32":
        pairs = np.frombuffer(data, "<f2").astype(np.float64).reshape(-1, 2)
        return pairs[:, 0] + 1j * pairs[:, 1]
    if dtype.name.startswith("complex"):
        return np.frombuffer(data, f"<c{dtype.size}").astype(np.complex128)
    return np.frombuffer(data, f"<f{dtype.size}").astype(np.float64)


def _float8(name: str) -> Floats:
    """The 256 values of an 8-bit format (OCP formats; `fnuz`: one NaN, the bias one higher)."""
    if name == "float8_e8m0fnu":
        return np.array([math.ldexp(1.0, n - 127) for n in range(255)] + [math.nan])
    fraction_bits = 3 if "e4m3" in name else 2
    bias = (7 if "e4m3" in name else 15) + name.endswith("fnuz")
    values = []
    for bits in range(256):
        exponent, fraction = (bits & 0x7F) >> fraction_bits, bits & ((1 << fraction_bits) - 1)
        lead = 1 if exponent else 0
        size = math.ldexp(
            (lead << fraction_bits) + fraction, max(exponent, 1) - bias - fraction_bits
        )
        if name.endswith("fnuz"):
            special = bits == 0x80
        elif "e4m3" in name:
            special = bits & 0x7F == 0x7F
        else:
            special = exponent == 31
        values.append(math.nan if special else -size if bits & 0x80 else size)
    return np.array(values)

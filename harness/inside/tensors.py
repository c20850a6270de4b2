"""Tensors as records of where their bytes lie; their digests, and whether they are finite."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .refusal import Refusal

MAX_DIMENSIONS = 32  # numpy 1's own limit; torch allows 64, no checkpoint comes near
CHUNK = 1 << 20
Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Dtype:
    """An element type: bytes an element, and which bit patterns of a word are not finite.

    A word w (numpy code `word`) is NaN or infinite where `w & mask == value`; no mask: never.
    """

    name: str
    size: int
    word: str
    mask: int = 0
    value: int = 0


def _table() -> dict[str, Dtype]:
    whole = [("bool", 1), *((f"{s}int{8 * n}", n) for s in ("", "u") for n in (1, 2, 4, 8))]
    kinds = [Dtype(name, size, f"<u{size}") for name, size in whole]
    exponents = {
        "float16": (2, 0x7C00),
        "bfloat16": (2, 0x7F80),
        "float32": (4, 0x7F800000),
        "float64": (8, 0x7FF0000000000000),
        "complex32": (2, 0x7C00),
        "complex64": (4, 0x7F800000),
        "complex128": (8, 0x7FF0000000000000),
        "float8_e5m2": (1, 0x7C),
        "float8_e4m3fn": (1, 0x7F),
        "float8_e8m0fnu": (1, 0xFF),
    }
    for name, (word, mask) in exponents.items():
        size = 2 * word if name.startswith("complex") else word
        kinds.append(Dtype(name, size, f"<u{word}", mask, mask))
    # The formats without infinity whose one NaN is the pattern of negative zero.
    kinds += [Dtype(f"float8_{k}fnuz", 1, "<u1", 0xFF, 0x80) for k in ("e4m3", "e5m2")]
    return {kind.name: kind for kind in kinds}


DTYPES = _table()


@dataclass(frozen=True, eq=False)
class Storage:
    """A run of bytes that tensors view; `dtype` is None for an untyped one."""

    dtype: Dtype | None
    data: memoryview


@dataclass(frozen=True, eq=False)
class Tensor:
    """A view of a storage; `shape`, `strides` and `offset` count elements."""

    dtype: Dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: Storage

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size of its elements laid out in C order."""
        return self.count * self.dtype.size


@dataclass(frozen=True)
class Measure:
    """What is known of a tensor's bytes."""

    sha256: str
    finite: bool


def tensor(
    storage: object, dtype: Dtype | None, offset: object, shape: object, strides: object
) -> Tensor:
    """A checked view. Raises Refusal where it does not lie inside its storage."""
    if not isinstance(storage, Storage) or dtype is None:
        raise Refusal("a tensor without a typed storage")
    sizes, steps = _counts(shape, "shape"), _counts(strides, "strides")
    (start,) = _counts((offset,), "offset")
    if len(sizes) != len(steps) or len(sizes) > MAX_DIMENSIONS:
        raise Refusal(f"a tensor of {len(sizes)} dimensions and {len(steps)} strides")
    if all(sizes):
        last = start + sum((n - 1) * s for n, s in zip(sizes, steps, strict=True))
        if (last + 1) * dtype.size > len(storage.data):
            raise Refusal(
                f"a tensor of shape {list(sizes)} reaches outside its storage "
                f"of {len(storage.data)} bytes"
            )
    return Tensor(dtype, sizes, steps, start, storage)


def _counts(values: object, what: str) -> tuple[int, ...]:
    numbers = values if isinstance(values, tuple | list) else (None,)
    if not all(type(n) is int and 0 <= n < 1 << 63 for n in numbers):
        raise Refusal(f"a tensor whose {what} is not made of whole numbers in range")
    return tuple(numbers)


def contiguous(shape: tuple[int, ...], dtype: Dtype, data: memoryview) -> Tensor:
    """A tensor that fills `data` in C order."""
    strides = [1]
    for size in shape[:0:-1]:
        strides.append(strides[-1] * max(size, 1))
    return tensor(Storage(dtype, data), dtype, 0, shape, tuple(strides[::-1][: len(shape)]))


def measure(view: Tensor) -> Measure:
    """SHA-256 of the C-order little-endian bytes, and whether every element is finite."""
    sha = hashlib.sha256()
    finite = True
    for block in blocks(view):
        sha.update(block)
        finite = finite and _finite(block, view.dtype)
    return Measure(sha.hexdigest(), finite)


def _finite(block: memoryview, dtype: Dtype) -> bool:
    if not dtype.mask:
        return True
    words = np.frombuffer(block, dtype.word)
    kind = words.dtype.type
    return not bool(((words & kind(dtype.mask)) == kind(dtype.value)).any())


def blocks(view: Tensor) -> Iterator[memoryview]:
    """The elements in C order, as bytes, some whole elements (about a mebibyte) at a time."""
    if not view.count:
        return
    size = view.dtype.size
    if _in_order(view):
        run = view.storage.data[view.offset * size : view.offset * size + view.bytes]
        for start in range(0, len(run), CHUNK):
            yield run[start : start + CHUNK]
        return
    # Complex numbers as such only to be moved: no bit of theirs changes by a copy.
    code = "<c16" if size == 16 else f"<u{size}"
    laid: Array = np.ndarray(
        view.shape,
        code,
        view.storage.data,
        view.offset * size,
        tuple(step * size for step in view.strides),
    )
    for part in _parts(laid):
        yield np.ascontiguousarray(part).reshape(-1).view(np.uint8).data


def _in_order(view: Tensor) -> bool:
    expected = 1
    for size, step in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True


def _parts(laid: Array) -> Iterator[Array]:
    """Split along the leading dimensions until a part is at most a chunk."""
    if laid.nbytes <= CHUNK:
        yield laid
        return
    rows = max(1, CHUNK // (laid.nbytes // len(laid)))
    for start in range(0, len(laid), rows):
        part = laid[start : start + rows]
        yield from _parts(part[0]) if rows == 1 else iter((part,))

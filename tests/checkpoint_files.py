"""Checkpoint files made by hand, so that the tests of their reader need no torch.

`pickled` assembles protocol 2 opcodes as torch's pickler writes them; `zipped` puts a pickle and
its storages in an archive as torch does.
"""

import io
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

STORAGES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
}
SIZES = {
    **dict.fromkeys(("uint8", "int8", "bool"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16"), 2),
    **dict.fromkeys(("float32", "int32"), 4),
    **dict.fromkeys(("float64", "int64", "complex64"), 8),
    "complex128": 16,
}


@dataclass(frozen=True)
class View:
    """A tensor to be written: a view, in elements, of the storage `key`."""

    dtype: str
    key: str
    elements: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Raw:
    """Opcodes to be put in as they are; they leave one value."""

    opcodes: bytes


@dataclass(frozen=True)
class Name:
    """A global to be named."""

    module: str
    name: str


def whole(dtype: str, key: str, *shape: int) -> View:
    """A tensor that fills its storage in C order."""
    strides = [int(np.prod(shape[n + 1 :])) for n in range(len(shape))]
    elements = int(np.prod(shape))
    return View(dtype, key, elements, 0, shape, tuple(strides))


def pickled(value: object) -> bytes:
    """The whole pickle of `value`."""
    return b"\x80\x02" + opcodes(value) + b"."


def opcodes(value: object) -> bytes:
    """The opcodes that leave `value` on the stack."""
    match value:
        case Raw(given):
            return given
        case Name(module, name):
            return f"c{module}\n{name}\n".encode()
        case View():
            return _tensor(value)
        case None | True | False:
            return {None: b"N", True: b"\x88", False: b"\x89"}[value]
        case str():
            text = value.encode("utf-8", "surrogatepass")
            return b"X" + struct.pack("<I", len(text)) + text
        case int():
            number = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            return b"\x8a" + bytes([len(number)]) + number
        case float():
            return b"G" + struct.pack(">d", value)
        case tuple():
            return b"(" + b"".join(map(opcodes, value)) + b"t"
        case list():
            return b"](" + b"".join(map(opcodes, value)) + b"e"
        case dict():
            pairs = (opcodes(key) + opcodes(item) for key, item in value.items())
            return b"}(" + b"".join(pairs) + b"u"
    raise TypeError(type(value))


def call(module: str, name: str, *args: object) -> Raw:
    """REDUCE of a global with arguments."""
    return Raw(opcodes(Name(module, name)) + opcodes(args) + b"R")


def _tensor(view: View) -> bytes:
    typed = view.dtype in STORAGES
    kind = Name("torch", STORAGES[view.dtype]) if typed else Name("torch.storage", "UntypedStorage")
    count = view.elements if typed else view.elements * SIZES[view.dtype]
    storage = Raw(opcodes(("storage", kind, view.key, "cpu", count)) + b"Q")
    hooks = call("collections", "OrderedDict")
    args: tuple[object, ...] = (storage, view.offset, view.shape, view.strides, False, hooks)
    if typed:
        return call("torch._utils", "_rebuild_tensor_v2", *args).opcodes
    return call("torch._utils", "_rebuild_tensor_v3", *args, Name("torch", view.dtype)).opcodes


def zipped(pickle: bytes, storages: Mapping[str, bytes], prefix: str = "archive") -> bytes:
    """The archive with the pickle and the storages."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{prefix}/data.pkl", pickle)
        archive.writestr(f"{prefix}/byteorder", "little")
        for key, data in storages.items():
            archive.writestr(f"{prefix}/data/{key}", data)
        archive.writestr(f"{prefix}/version", "3\n")
    return file.getvalue()


def write(path: Path, value: object, storages: Mapping[str, bytes]) -> Path:
    """Write a checkpoint of `value`; returns its path."""
    path.write_bytes(zipped(pickled(value), storages))
    return path

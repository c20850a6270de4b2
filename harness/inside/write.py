"""Write tensors as a torch zip checkpoint, without torch: equal tensors give equal bytes.

The archive is as `torch.save` makes it (data.pkl, a member a storage, byteorder, version), with a
fixed date; the pickle holds nothing but dicts, names and tensors, so it loads with
`weights_only=True`.
"""

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

from .backbone import Floats

_DATE = (1980, 1, 1, 0, 0, 0)


def write_state(path: Path, tensors: Mapping[str, Floats]) -> None:
    """Write `{"state_dict": tensors}`, in their order, to a new file."""
    with path.open("xb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:

        def member(name: str, data: bytes | memoryview) -> None:
            archive.writestr(zipfile.ZipInfo(f"archive/{name}", _DATE), data)

        member("data.pkl", _pickle(tensors))
        member("byteorder", b"little")
        for number, tensor in enumerate(tensors.values()):
            # A copy in C order; bytes, since a view's length counts elements.
            member(f"data/{number}", tensor.astype("<f4").tobytes())
        member("version", b"3\n")


def _pickle(tensors: Mapping[str, Floats]) -> bytes:
    """Protocol 2, by hand: a pickler would have to import what it names."""
    items = b"".join(
        _text(name) + _tensor(number, tensor.shape)
        for number, (name, tensor) in enumerate(tensors.items())
    )
    return b"\x80\x02}" + _text("state_dict") + b"}(" + items + b"us."


def _tensor(number: int, shape: tuple[int, ...]) -> bytes:
    """`torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict())`."""
    strides, elements = [], 1
    for size in reversed(shape):
        strides.append(elements)
        elements *= size
    storage = _text("storage") + b"ctorch\nFloatStorage\n" + _text(str(number)) + _text("cpu")
    hooks = b"ccollections\nOrderedDict\n)R"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + (b"(" + storage + _integer(elements) + b"tQ")
        + (_integer(0) + _integers(shape) + _integers(strides[::-1]) + b"\x89" + hooks)
        + b"tR"
    )


def _integers(values: tuple[int, ...] | list[int]) -> bytes:
    return b"(" + b"".join(map(_integer, values)) + b"t"


def _integer(value: int) -> bytes:
    return b"\x8a" + bytes([8]) + struct.pack("<q", value)


def _text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data

"""The kinds of checkpoint file, told apart by their first bytes, and opened without executing."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .archive import Archive, map_file
from .data import Inert
from .refusal import Refusal
from .tensors import DTYPES, Tensor, contiguous
from .tree import tensors
from .unpickle import Machine

MAX_PICKLE = 256 << 20
MAX_HEADER = 100 << 20  # the safetensors format's own limit
_NOTE = 1 << 12
_NOTES = ("version", "byteorder", ".format_version", ".storage_alignment", ".data/serialization_id")
_STORAGE = re.compile(r"data/(\d+)")
_SAFE = {
    "BOOL": "bool",
    **{f"{c}{n}": f"{w}{n}" for c, w in (("I", "int"), ("U", "uint")) for n in (8, 16, 32, 64)},
    **{f"F{n}": f"float{n}" for n in (16, 32, 64)},
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "C64": "complex64",
}


@dataclass(frozen=True)
class Loaded:
    """A checkpoint's value, inert, its tensors by path, and the classes it has as data."""

    format: str
    value: object
    tensors: dict[str, Tensor]
    classes: tuple[str, ...]


def load(path: Path) -> Loaded:
    """Read a checkpoint's structure; tensors stay in the file until they are used.

    Raises Refusal for a file that is damaged, of an old format, or more than plain data; and
    where its tensors, unfolded, are far larger than the file (a bomb made of strides).
    """
    data = map_file(path)
    loaded = _open(data)
    distinct = {(id(t.storage), t.offset, t.shape, t.strides): t for t in loaded.tensors.values()}
    total = sum(view.bytes for view in distinct.values())
    if total > 4 * len(data) + (64 << 20):
        raise Refusal(f"{total} bytes of tensors in a file of {len(data)}")
    return loaded


def _open(data: memoryview) -> Loaded:
    start = bytes(data[:512])
    if start[:4] == b"PK\3\4":
        return _torch(Archive(data))
    if start[257:262] == b"ustar":
        raise Refusal("torch's oldest format (tar); save it again with a torch of 1.6 or later")
    if start[:2] in (b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5"):
        raise Refusal("torch's old format (bare pickles); save it again with torch 1.6 or later")
    if start[8:9] == b"{":
        return _safetensors(data)
    raise Refusal("neither a torch zip checkpoint nor a safetensors file")


def _torch(archive: Archive) -> Loaded:
    roots = [name for name in archive.members if name.count("/") == 1]
    pickles = [name for name in roots if name.endswith("/data.pkl")]
    if any(name.endswith("/constants.pkl") for name in archive.members):
        raise Refusal("a TorchScript archive, which holds code: not a checkpoint")
    if len(pickles) != 1:
        raise Refusal("zip archive without exactly one data.pkl: not a torch checkpoint")
    prefix = pickles[0].removesuffix("data.pkl")
    notes = {
        name: archive.checked(prefix + name, _NOTE)
        for name in _NOTES
        if prefix + name in archive.members
    }
    if notes.get("byteorder", b"little") != b"little":
        raise Refusal("a checkpoint of a big-endian machine: not read")
    if notes.get("version", b"3").strip() not in (b"2", b"3"):
        raise Refusal("a torch checkpoint of an unknown version")

    def find_storage(key: str) -> memoryview:
        name = f"{prefix}data/{key}"
        if not _STORAGE.fullmatch(f"data/{key}") or name not in archive.members:
            raise Refusal(f"storage {key:.50}: named in the pickle, not in the archive")
        return archive.view(name)

    machine = Machine(archive.checked(pickles[0], MAX_PICKLE), find_storage)
    value = machine.load()
    known = {pickles[0], *(prefix + name for name in notes)}
    known |= {f"{prefix}data/{key}" for key in machine.storages}
    if unknown := sorted(archive.members.keys() - known):
        raise Refusal(f"{unknown[0]:.200}: a member that no part of the checkpoint uses")
    return Loaded("torch-zip", value, tensors(value), tuple(sorted(machine.classes)))


def _safetensors(data: memoryview) -> Loaded:
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER or 8 + length > len(data):
        raise Refusal("truncated safetensors file: shorter than its header")
    try:
        header = json.loads(bytes(data[8 : 8 + length]), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"safetensors file with a damaged header: {error}") from error
    header.pop("__metadata__", None)
    body, free = data[8 + length :], 0
    found: dict[str, Tensor] = {}
    try:
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            start, end = entry["data_offsets"]
            shape = tuple(entry["shape"])
            dtype = DTYPES[_SAFE[entry["dtype"]]]
            if start != free or not free <= end <= len(body):
                raise Refusal(f"{name:.200}: overlaps, leaves a gap or ends outside the file")
            found[name] = contiguous(shape, dtype, body[start:end])
            if found[name].bytes != end - start:
                raise Refusal(f"{name:.200}: {end - start} bytes do not fit its shape")
            free = end
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refusal(f"safetensors file with a damaged or unknown entry: {error}") from error
    if free != len(body):
        raise Refusal("safetensors file with bytes that belong to no tensor")
    return Loaded("safetensors", found, tensors(found), ())


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name stands twice")
    return value


def settings(loaded: Loaded) -> object:
    """The hyper-parameters a trainer stored with the weights, inert; None where there are none."""
    value = loaded.value
    return value.get("hyper_parameters") if isinstance(value, dict) else None


def step(loaded: Loaded) -> int | None:
    """The optimiser step stored in the checkpoint (`global_step` or `step`), where it is one."""
    value = loaded.value
    for name in ("global_step", "step"):
        found = value.get(name) if isinstance(value, dict) else None
        if isinstance(found, Tensor) and found.count == 1 and not found.dtype.mask:
            size = found.dtype.size
            first = found.storage.data[found.offset * size : (found.offset + 1) * size]
            return int.from_bytes(first, "little", signed=found.dtype.name.startswith("i"))
        if type(found) is int:
            return found
    return None


def group_roots(loaded: Loaded) -> dict[str, str]:
    """The top-level key of each group; "" where the whole file is the state.

    `state`: `state_dict`, else `model`, else a file of tensors only. `ema`: `ema`.
    """
    value = loaded.value
    if not isinstance(value, dict):
        return {}
    roots = {}
    state = next((k for k in ("state_dict", "model") if isinstance(value.get(k), dict)), None)
    if state is not None:
        roots["state"] = state
    elif value and all(isinstance(item, Tensor) for item in value.values()):
        roots["state"] = ""
    if isinstance(value.get("ema"), dict | list | Inert):
        roots["ema"] = "ema"
    return roots

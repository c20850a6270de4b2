"""The pickle machine: what it builds, and that nothing else is ever built or run."""

import builtins
import collections
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_files import Name, Raw, call, opcodes, pickled
from hypothesis import given
from hypothesis import strategies as st

from harness.inside.data import Global, Inert, OrderedMap
from harness.inside.refusal import Refusal
from harness.inside.tensors import Tensor, blocks
from harness.inside.unpickle import MAX_INT_BITS, Machine


def no_storage(key: str) -> memoryview:
    raise Refusal(f"no storage {key}")


def load(data: bytes) -> Any:
    return Machine(data, no_storage).load()


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.text(), st.binary()), inner)
        | st.sets(st.integers() | st.text())
    ),
)


@given(value=plain, protocol=st.integers(2, 5))
def test_plain_values_come_back(value: object, protocol: int) -> None:
    assert load(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_containers_of_the_standard_library(protocol: int) -> None:
    ordered = collections.OrderedDict(a=1)
    value = [ordered, frozenset({1}), bytearray(b"ab"), 1 + 2j, dict, collections.Counter("aa")]
    found = load(pickle.dumps(value, protocol))
    assert found[:4] == [{"a": 1}, {1}, b"ab", [1.0, 2.0]]
    assert isinstance(found[0], OrderedMap)
    assert found[4] == Global("builtins.dict")
    assert isinstance(found[5], Inert)
    assert (found[5].name, found[5].args) == ("collections.Counter", ({"a": 2},))


def test_shared_and_cyclic_values_keep_their_shape() -> None:
    cycle: list[object] = []
    cycle += [cycle, (cycle, "x")]
    found = load(pickle.dumps(cycle, 2))
    assert found[0] is found
    assert found[1][0] is found


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="<u4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([True, False]),
        np.zeros((0, 3), "<f2"),
        np.array(1 + 2j),
    ],
)
def test_numpy_arrays(protocol: int, array: np.ndarray[Any, Any]) -> None:
    found = load(pickle.dumps(array, protocol))
    tensor = getattr(found, "content", found)
    assert isinstance(tensor, Tensor)
    assert tensor.shape == array.shape
    assert tensor.dtype.name == str(array.dtype)
    assert b"".join(blocks(tensor)) == array.tobytes()


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("value", [np.float64(1.5), np.int64(-3), np.bool_(True), np.uint8(200)])
def test_numpy_scalars(protocol: int, value: np.generic) -> None:
    assert load(pickle.dumps(value, protocol)) == value.item()


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    "array",
    [np.array([{}], object), np.array([(1, 2)], "i4,i4"), np.arange(3, dtype=">i4"), np.array("a")],
)
def test_arrays_of_other_things_are_refused(protocol: int, array: np.ndarray[Any, Any]) -> None:
    with pytest.raises(Refusal, match=r"numpy\.(ndarray|dtype)"):
        load(pickle.dumps(array, protocol))


def test_known_classes_are_kept_as_data() -> None:
    made = call("omegaconf.dictconfig", "DictConfig", "x")
    state = opcodes({"_content": {"a": 1}})
    found = Machine(pickled(Raw(made.opcodes + state + b"b")), no_storage)
    value = found.load()
    assert isinstance(value, Inert)
    assert value.name == "omegaconf.dictconfig.DictConfig"
    assert (value.args, value.state) == (("x",), {"_content": {"a": 1}})
    assert found.classes == {"omegaconf.dictconfig.DictConfig"}


class Payload:
    """Pickles as a call of `function`."""

    def __init__(self, function: object, *args: object) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (os.system, r"posix\.system"),
        (eval, r"builtins\.eval"),
        (exec, r"builtins\.exec"),
        (getattr, r"builtins\.getattr"),
        (builtins.__import__, r"builtins\.__import__"),
        (os.putenv, r"posix\.putenv"),
        (pickle.loads, r"_?pickle\.loads"),
        (np.load, r"numpy.*load"),
    ],
)
def test_calls_are_refused_by_name(
    tmp_path: Path, protocol: int, function: object, name: str
) -> None:
    marker = tmp_path / "marker"
    data = pickle.dumps({"a": [Payload(function, f"touch {marker}")]}, protocol)
    with pytest.raises(Refusal, match=name):
        load(data)
    assert not marker.exists()


def arbitrary(touch: bytes) -> dict[str, tuple[bytes, str]]:
    """Hand-made opcodes that run `touch` where pickle would run them, with the name to be told."""
    text = opcodes(touch.decode())
    system = opcodes(Name("os", "system"))
    known = opcodes(Name("omegaconf.base", "Node"))
    return {
        "GLOBAL": (system, "os.system"),
        "REDUCE": (system + text + b"\x85R", "os.system"),
        "STACK_GLOBAL": (opcodes("os") + opcodes("system") + b"\x93", "os.system"),
        "dotted": (opcodes("os") + opcodes("path.os.system") + b"\x93", "os.path.os.system"),
        "NEWOBJ": (system + text + b"\x85\x81", "os.system"),
        "NEWOBJ_EX": (system + text + b"\x85}\x92", "os.system"),
        "INST": (b"(" + text + b"ios\nsystem\n", "INST (os system)"),
        "OBJ": (b"(" + known + text + b"o", "OBJ"),
        "BUILD": (known + b")R" + system + b"b", "os.system"),
        "BUILD on a class": (known + b"}b", "takes none"),
        "BUILD on a dict": (b"}}b", "takes none"),
        "EXT1": (b"\x82\x01", "EXT1"),
        "EXT2": (b"\x83\x01\x00", "EXT2"),
        "EXT4": (b"\x84\x01\x00\x00\x00", "EXT4"),
        "PERSID": (b"Pos.system\n", "PERSID"),
        "BINPERSID": (text + b"Q", "no storage"),
        "NEXT_BUFFER": (b"\x97", "NEXT_BUFFER"),
        "DUP": (b"N2", "DUP"),
        "call of a result": (known + b")R)R", "no known class"),
        "call of text": (text + b")R", "no known class"),
        "_load_from_bytes": (
            call("torch.storage", "_load_from_bytes", "x").opcodes,
            "torch.storage._load_from_bytes",
        ),
        "getattr chain": (
            call("builtins", "getattr", call("builtins", "__import__", "os"), "system").opcodes,
            "builtins.getattr",
        ),
        "_reconstructor": (
            call("copy_reg", "_reconstructor", Name("os", "system"), None, None).opcodes,
            "copyreg._reconstructor",
        ),
        "sparse": (
            call("torch._utils", "_rebuild_sparse_tensor", None, None).opcodes,
            "torch._utils._rebuild_sparse_tensor",
        ),
        "quantized": (
            call("torch._utils", "_rebuild_qtensor", None).opcodes,
            "torch._utils._rebuild_qtensor",
        ),
        "parameter of a class": (
            call("torch._utils", "_rebuild_parameter", Name("typing", "Any"), True, None).opcodes,
            "Parameter",
        ),
        "subclass of a tensor": (
            call(
                "torch._tensor", "_rebuild_from_type_v2", Name("typing", "Any"), None, (), None
            ).opcodes,
            "a tensor of the class",
        ),
        "codec": (call("_codecs", "encode", touch.decode(), "rot13").opcodes, "rot13"),
    }


@pytest.mark.parametrize("kind", arbitrary(b""))
def test_hand_made_payloads_are_refused(tmp_path: Path, kind: str) -> None:
    marker = tmp_path / "marker"
    body, name = arbitrary(f"touch {marker}".encode())[kind]
    with pytest.raises(Refusal) as refused:
        load(b"\x80\x04" + body + b".")
    assert name in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not marker.exists()


@given(data=st.binary(max_size=200))
def test_noise_is_refused_or_plain(data: bytes) -> None:
    try:
        load(b"\x80\x02" + data)
    except Refusal as error:
        assert str(error)


@given(data=st.data())
def test_damaged_pickles_are_refused_or_plain(data: st.DataObject) -> None:
    value = {"a": [1, (2.5, "x")], "o": collections.OrderedDict(b=np.arange(3))}
    content = bytearray(pickle.dumps(value, data.draw(st.integers(2, 5))))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        load(bytes(content))
    except Refusal as error:
        assert str(error)


def repeated(value: bytes, function: Name, rest: bytes) -> bytes:
    """A pickle that keeps a long value in its memo and has it copied again and again."""
    once = opcodes(function) + b"(h\x00" + rest + b"tR"
    return b"\x80\x02" + value + b"q\x000](" + once * 100 + b"e."


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (repeated(opcodes("x" * 100_000), Name("_codecs", "encode"), opcodes("latin1")), "copies"),
        (repeated(b"](" + b"K\x01" * 50_000 + b"e", Name("builtins", "set"), b""), "copies"),
        (b"\x80\x02\x8b" + struct.pack("<i", 1000) + b"\x7f" * 1000 + b".", "integer of"),
        (b"\x80\x02(" + b"K\x01" * 17 + b"tq\x00}h\x00Ns.", "a key"),
        (b"\x80\x02}]Ns.", "a key"),
        (b"\x80\x02X\xff\xff\xff\x7fab.", "damaged"),
        (b"\x80\x02r\xff\xff\xff\xff.", "damaged"),
        (b"\x80\x02N.N.", "left over"),
        (b"\x80\x02NN.", "left over"),
        (b"\x80\x02N", "damaged"),
        (b"", "damaged"),
    ],
)
def test_bombs_and_damage(data: bytes, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        load(data)


def test_a_deep_nest_is_read_without_recursion() -> None:
    depth = 200_000
    value = load(b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b".")
    for _ in range(depth - 1):
        (value,) = value
    assert value == []


def test_integers_up_to_the_limit() -> None:
    number = (1 << (MAX_INT_BITS - 1)) + 1
    assert load(pickle.dumps(number, 2)) == number

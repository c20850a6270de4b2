"""The whole reader: random states against an independent digest, damage, groups, the command."""

import hashlib
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_files import SIZES, View, call, opcodes, pickled, whole, write, zipped
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from harness.inside import checkpoint
from harness.inside.archive import Archive, map_file
from harness.inside.formats import load
from harness.inside.refusal import Refusal
from harness.inside.tensors import CHUNK


def digest(path: Path) -> dict[str, Any]:
    return checkpoint.report(load(path))


def reference(rows: dict[str, tuple[str, list[int], bytes]]) -> str:
    """The group digest, written from the format's page alone."""
    listed = [
        [name, dtype, shape, hashlib.sha256(data).hexdigest()]
        for name, (dtype, shape, data) in sorted(rows.items())
    ]
    return hashlib.sha256(json.dumps(listed, separators=(",", ":")).encode()).hexdigest()


@st.composite
def views(draw: st.DrawFn) -> tuple[View, bytes, bytes]:
    """A tensor over random bytes: the view, its storage, and its elements in C order."""
    dtype = draw(st.sampled_from(sorted(SIZES)))
    size = SIZES[dtype]
    shape = draw(npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    strides = tuple(draw(st.integers(0, 5)) for _ in shape)
    offset = draw(st.integers(0, 3))
    last = offset + sum(max(n - 1, 0) * s for n, s in zip(shape, strides, strict=True))
    elements = last + 1 + draw(st.integers(0, 2))
    data = draw(st.binary(min_size=elements * size, max_size=elements * size))
    laid = np.ndarray(shape, f"V{size}", data, offset * size, tuple(s * size for s in strides))
    return View(dtype, "?", elements, offset, shape, strides), data, laid.tobytes()


names = st.text(min_size=1, max_size=6).filter(lambda text: "/" not in text and "~" not in text)
nests = st.recursive(
    views(),
    lambda inner: st.dictionaries(names, inner, max_size=3) | st.lists(inner, max_size=12),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(nest=st.dictionaries(names, nests, max_size=4))
def test_random_states_have_the_independent_digest(
    tmp_path_factory: pytest.TempPathFactory, nest: dict[str, Any]
) -> None:
    storages: dict[str, bytes] = {}
    expected: dict[str, tuple[str, list[int], bytes]] = {}

    def place(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {k: place(v, f"{path}/{k}" if path else k) for k, v in value.items()}
        if isinstance(value, list):
            width = len(str(len(value) - 1))
            return [place(v, f"{path}/{n:0{width}}") for n, v in enumerate(value)]
        view, data, ordered = value
        key = str(len(storages))
        storages[key] = data
        expected[path] = (view.dtype, list(view.shape), ordered)
        return View(view.dtype, key, view.elements, view.offset, view.shape, view.strides)

    value = place(nest, "")
    path = write(tmp_path_factory.mktemp("state") / "a.ckpt", value, storages)
    found = digest(path)
    assert found["groups"]["all"]["digest"] == reference(expected)
    assert found["groups"]["all"]["bytes"] == sum(len(data) for _, _, data in expected.values())
    assert [row["name"] for row in found["tensors"]] == sorted(expected)


def small(path: Path) -> Path:
    """A Lightning-like checkpoint: weights, averages, step."""
    value = {
        "state_dict": {"backbone.w": whole("float32", "0", 2, 3), "b": whole("bfloat16", "1", 2)},
        "ema": {"decay": 0.999, "shadow_params": [whole("float32", "2", 3)] * 11},
        "global_step": 7,
        "hyper_parameters": {"lr": 3e-4, "nan": float("nan"), "big": 1 << 70},
    }
    floats = np.arange(9, dtype="<f4").tobytes()
    return write(path, value, {"0": floats[:24], "1": b"\x80\x3f\x00\x40", "2": floats[24:]})


def test_groups_step_and_settings(tmp_path: Path) -> None:
    found = digest(small(tmp_path / "a.ckpt"))
    floats = np.arange(9, dtype="<f4").tobytes()
    rows = {
        "b": ("bfloat16", [2], b"\x80\x3f\x00\x40"),
        "backbone.w": ("float32", [2, 3], floats[:24]),
    }
    assert found["groups"]["state"] == {
        "digest": reference(rows),
        "tensors": 2,
        "bytes": 28,
        "finite": True,
    }
    shadows = {f"shadow_params/{n:02}": ("float32", [3], floats[24:]) for n in range(11)}
    assert found["groups"]["ema"]["digest"] == reference(shadows)
    assert found["groups"]["all"]["tensors"] == 13
    assert found["step"] == 7
    assert found["hyper_parameters"] == {"lr": 3e-4, "nan": "nan", "big": str(1 << 70)}
    assert {row["name"]: row["group"] for row in found["tensors"]}["ema/shadow_params/10"] == "ema"


def test_the_example_of_the_formats_page(tmp_path: Path) -> None:
    page = Path(checkpoint.__file__).parents[2] / "docs/formats/checkpoint-digest.md"
    data = struct.pack("<2f", 1, 2)
    found = digest(write(tmp_path / "a", {"w": whole("float32", "0", 2)}, {"0": data}))
    assert f"`{found['groups']['state']['digest']}`" in page.read_text()
    assert found["tensors"][0]["sha256"] in page.read_text()


@pytest.mark.parametrize("key", ["model", None])
def test_the_state_of_other_layouts(tmp_path: Path, key: str | None) -> None:
    state = {"w": whole("float32", "0", 2)}
    path = write(tmp_path / "a.pth", {key: state, "step": 9} if key else state, {"0": bytes(8)})
    found = digest(path)
    assert found["groups"]["state"]["digest"] == reference({"w": ("float32", [2], bytes(8))})
    assert found["step"] == (9 if key else None)
    assert found["groups"]["ema"] is None


def test_the_digest_does_not_depend_on_pickle_or_archive(tmp_path: Path) -> None:
    first = {"a": whole("float32", "0", 2), "b": whole("int64", "1", 1)}
    second = {"b": whole("int64", "5", 1), "a": View("float32", "3", 4, 1, (2,), (2,))}
    numbers = [np.array(n, "<f4").tobytes() for n in ([1, 2], [9, 1, 9, 2])]
    one = write(tmp_path / "1", first, {"0": numbers[0], "1": bytes(8)})
    other = zipped(pickled(second), {"3": numbers[1], "5": bytes(8)}, prefix="other")
    (tmp_path / "2").write_bytes(other)
    assert digest(one)["groups"] == digest(tmp_path / "2")["groups"]


def test_every_flipped_byte_is_seen_or_lies_outside_the_tensors(tmp_path: Path) -> None:
    """A flip changes the digests or the plain values, is refused, or lies in zip bookkeeping."""
    path = small(tmp_path / "a.ckpt")
    content = path.read_bytes()
    original = digest(path)
    covered = covered_bytes(path)
    flipped = tmp_path / "flipped.ckpt"
    unseen = []
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << (position % 8)
        flipped.write_bytes(changed)
        try:
            if digest(flipped) == original:
                unseen.append(position)
        except Refusal:
            pass
    assert unseen  # times and versions in zip headers
    assert not covered & set(unseen)


def covered_bytes(path: Path) -> set[int]:
    """Positions of the bytes inside members: the pickle, the notes and the storages."""
    members = Archive(map_file(path)).members.values()
    return {n for member in members for n in range(member.start, member.start + member.size)}


def test_a_file_cut_anywhere_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = small(tmp_path / "a.ckpt").read_bytes()
    cut = tmp_path / "cut.ckpt"
    for length in range(len(content)):
        cut.write_bytes(content[:length])
        assert checkpoint.main(["digest", str(cut)]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("cut.ckpt: ")
        assert shown.err.count("\n") == 1


NOT_FINITE = {
    "float16": ("<H", 0x7C00, 0xFE01),
    "bfloat16": ("<H", 0x7F80, 0xFFC0),
    "float32": ("<I", 0x7F800000, 0xFFC00000),
    "float64": ("<Q", 0x7FF0000000000000, 0xFFF8000000000001),
    "complex64": ("<Q", 0x7F80000000000000, 0x7FC00001),
    "complex128": ("<QQ", 0x7FF0000000000000, 0x7FF8000000000001),
    "float8_e4m3fn": ("<B", 0x7F, 0xFF),
    "float8_e5m2": ("<B", 0x7C, 0xFE),
    "float8_e4m3fnuz": ("<B", 0x80, 0x80),
    "float8_e5m2fnuz": ("<B", 0x80, 0x80),
    "float8_e8m0fnu": ("<B", 0xFF, 0xFF),
}
FINITE_LIMITS = {
    "float16": 0x7BFF,
    "bfloat16": 0x7F7F,
    "float32": 0x7F7FFFFF,
    "float64": 0x7FEFFFFFFFFFFFFF,
    "float8_e4m3fn": 0x7E,
    "float8_e5m2": 0x7B,
    "float8_e4m3fnuz": 0x7F,
    "float8_e5m2fnuz": 0xFF,
    "float8_e8m0fnu": 0xFE,
}


@pytest.mark.parametrize("dtype", NOT_FINITE)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("chunk", [0, 1])
def test_what_is_not_finite_is_seen(tmp_path: Path, dtype: str, which: int, chunk: int) -> None:
    place = chunk * (CHUNK // SIZES[dtype]) + 1
    code, *patterns = NOT_FINITE[dtype]
    words = (patterns[which],) if len(code) == 2 else (0, patterns[which])
    element = struct.pack(code, *words)
    data = bytes(place * len(element)) + element + bytes(len(element))
    path = write(tmp_path / "a", {"x": whole(dtype, "0", place + 2)}, {"0": data})
    assert digest(path)["groups"]["all"]["finite"] is False


@pytest.mark.parametrize("dtype", FINITE_LIMITS)
def test_the_largest_finite_number_is_finite(tmp_path: Path, dtype: str) -> None:
    data = FINITE_LIMITS[dtype].to_bytes(SIZES[dtype], "little")
    path = write(tmp_path / "a", {"x": whole(dtype, "0", 1)}, {"0": data})
    assert digest(path)["groups"]["all"]["finite"] is True


def test_whole_numbers_of_any_bits_are_finite(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"x": whole("int32", "0", 2)}, {"0": b"\xff" * 8})
    assert digest(path)["groups"]["all"]["finite"] is True


def test_a_view_under_many_names_is_read_once(tmp_path: Path) -> None:
    view = whole("uint8", "0", 4 << 20)
    path = write(tmp_path / "a", {f"n{n}": view for n in range(400)}, {"0": bytes(4 << 20)})
    found = digest(path)
    assert found["groups"]["all"]["tensors"] == 400
    assert found["groups"]["all"]["bytes"] == 400 * (4 << 20)


def test_a_bomb_of_strides_is_refused(tmp_path: Path) -> None:
    view = View("uint8", "0", 1, 0, (1 << 20, 1 << 20), (0, 0))
    with pytest.raises(Refusal, match="bytes of tensors in a file of"):
        load(write(tmp_path / "a", {"x": view}, {"0": b"\0"}))


@pytest.mark.parametrize(
    "view",
    [
        View("uint8", "0", 8, 1, (8,), (1,)),
        View("uint8", "0", 8, 0, (3, 3), (3, 1)),
        View("uint8", "0", 8, 0, (2,), (1 << 62,)),
        View("uint8", "0", 8, 0, (2,), (-1,)),
        View("uint8", "0", 8, -1, (2,), (1,)),
        View("uint8", "0", 8, 0, (1 << 70,), (0,)),
        View("uint8", "0", 8, 0, (2,), (1, 1)),
        View("uint8", "0", 8, 0, (1,) * 40, (1,) * 40),
        View("uint8", "0", 9, 0, (2,), (1,)),
        View("float32", "0", 1, 0, (1,), (1,)),
        View("uint8", "1", 8, 0, (2,), (1,)),
        View("uint8", "../data.pkl", 8, 0, (2,), (1,)),
    ],
)
def test_a_view_outside_its_storage_is_refused(tmp_path: Path, view: View) -> None:
    with pytest.raises(Refusal):
        load(write(tmp_path / "a", {"x": view}, {"0": bytes(8)}))


def test_the_command_needs_neither_torch_nor_the_harness(tmp_path: Path) -> None:
    path = small(tmp_path / "a.ckpt")
    inside = Path(checkpoint.__file__).parent
    (tmp_path / "torch.py").write_text("raise SystemExit('torch imported')")
    done = subprocess.run(
        [sys.executable, "-m", "inside.checkpoint", "digest", str(path)],
        capture_output=True,
        cwd=inside.parent,
        env={"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.stderr == b""
    assert json.loads(done.stdout) == json.loads(json.dumps(digest(path)))


def test_compare_through_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = small(tmp_path / "a.ckpt")
    assert checkpoint.main(["compare", str(path), str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["equal"], found["compared"]) == (True, 13)


def test_a_payload_leaves_no_marker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marker = tmp_path / "marker"
    payload = call("posix", "system", f"touch {marker}")
    path = write(tmp_path / "a", {"state_dict": {"w": payload}}, {})
    assert opcodes(payload) in path.read_bytes()
    assert checkpoint.main(["digest", str(path)]) == 2
    assert "posix.system" in capsys.readouterr().err
    assert not marker.exists()
    assert not os.path.lexists(marker)

"""Telling formats apart, the archive's other members, and safetensors files."""

import json
import struct
from pathlib import Path

import pytest
from checkpoint_files import pickled, whole, zipped

from harness.inside.checkpoint import report
from harness.inside.formats import load
from harness.inside.refusal import Refusal

LEGACY = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03."


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"PK", "neither"),
        (LEGACY, r"torch's old format"),
        (bytes(257) + b"ustar" + bytes(300), "oldest format"),
        (b"\x7fELF" + bytes(100), "neither"),
        (zipped(pickled({}), {}).replace(b"data.pkl", b"meta.pkl"), "exactly one data.pkl"),
        (zipped(pickled({}), {}).replace(b"byteorder", b"constants"), "no part"),
        (zipped(pickled({}), {}).replace(b"/byteorder", b"/other.pkl"), "no part"),
        (zipped(pickled({}), {"7": b"unused"}), "no part of the checkpoint uses"),
    ],
)
def test_other_files_are_refused_by_what_they_are(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(Refusal, match=why):
        load(path)


def safetensors(header: object, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def test_a_safetensors_file_has_the_digest_of_the_same_torch_file(tmp_path: Path) -> None:
    body = struct.pack("<2fH", 1, 2, 0x3F80)
    header = {
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "BF16", "shape": [], "data_offsets": [8, 10]},
        "a": ENTRY,
    }
    (tmp_path / "a").write_bytes(safetensors(header, body))
    value = {"a": whole("float32", "0", 2), "b": whole("bfloat16", "1")}
    (tmp_path / "b").write_bytes(zipped(pickled(value), {"0": body[:8], "1": body[8:]}))
    one, other = report(load(tmp_path / "a")), report(load(tmp_path / "b"))
    assert one["format"] == "safetensors"
    assert one["groups"] == other["groups"]
    assert one["tensors"] == other["tensors"]


@pytest.mark.parametrize(
    "content",
    [
        safetensors({"a": ENTRY}, bytes(7)),
        safetensors({"a": ENTRY}, bytes(9)),
        safetensors({"a": ENTRY, "b": ENTRY}, bytes(8)),
        safetensors({"a": {**ENTRY, "data_offsets": [1, 9]}}, bytes(9)),
        safetensors({"a": {**ENTRY, "shape": [3]}}, bytes(8)),
        safetensors({"a": {**ENTRY, "shape": [1]}}, bytes(8)),
        safetensors({"a": {**ENTRY, "shape": ["2"]}}, bytes(8)),
        safetensors({"a": {**ENTRY, "dtype": "Q4"}}, bytes(8)),
        safetensors({"a": {**ENTRY, "data_offsets": [8, 0]}}, bytes(8)),
        safetensors({"a": {**ENTRY, "data_offsets": ["0", 8]}}, bytes(8)),
        safetensors({"a": 3}, b""),
        safetensors(b'{"a":{},"a":{}}', b""),
        safetensors(b"{", b""),
        safetensors(b'{"a":' + b"[" * 100_000, b""),
        struct.pack("<Q", 1 << 60) + b"{}",
    ],
)
def test_damaged_safetensors_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(Refusal):
        load(path)

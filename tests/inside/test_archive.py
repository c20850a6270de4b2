"""The strict zip reader: what torch and Python write, and what it refuses."""

import io
import struct
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.inside.archive import Archive
from harness.inside.refusal import Refusal


def made(files: dict[str, bytes], *, method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return file.getvalue()


def read(data: bytes) -> Archive:
    return Archive(memoryview(data))


@given(
    files=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\\\0:"), min_size=1),
        st.binary(),
    )
)
def test_members_come_back(files: dict[str, bytes]) -> None:
    archive = read(made(files))
    assert {name: archive.checked(name, 1 << 20) for name in archive.members} == files


def large(files: dict[str, bytes]) -> bytes:
    """The same, with the large (zip64) end records that torch always writes."""
    data = made(files)
    end = len(data) - 22
    _, _, _, _, count, size, start, _ = struct.unpack("<4s4H2IH", data[end:])
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
    return data[:end] + end64 + struct.pack("<4sIQI", b"PK\6\7", 0, end, 1) + data[end:]


def test_large_end_records() -> None:
    assert read(large({"a/b": b"x"})).view("a/b") == b"x"


def test_large_sizes_of_a_member() -> None:
    data = bytearray(made({"a": b"xyz"}))
    entry = data.index(b"PK\1\2")
    data[entry + 20 : entry + 28] = b"\xff" * 8
    struct.pack_into("<H", data, entry + 30, 20)
    extra = struct.pack("<2H2Q", 1, 16, 3, 3)
    data[entry + 47 : entry + 47] = extra
    end = len(data) - 22
    struct.pack_into("<I", data, end + 12, end - entry)
    assert read(bytes(data)).view("a") == b"xyz"


def overlapping(data: bytearray) -> None:
    """Let the second directory entry point into the first member."""
    second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 4)
    struct.pack_into("<I", data, second + 42, data.index(b"PK\3\4"))
    data[second + 46 : second + 47] = b"a"


def oversized(data: bytearray) -> None:
    entry = data.index(b"PK\1\2")
    struct.pack_into("<2I", data, entry + 20, 1000, 1000)


def encrypted(data: bytearray) -> None:
    data[data.index(b"PK\1\2") + 8] |= 1


def renamed(data: bytearray) -> None:
    data[data.index(b"PK\1\2") + 46 : data.index(b"PK\1\2") + 47] = b"z"


def commented(data: bytearray) -> None:
    struct.pack_into("<H", data, len(data) - 2, 4)
    data += b"note"


def counted_wrong(data: bytearray) -> None:
    struct.pack_into("<2H", data, len(data) - 14, 1, 1)


def wrong_checksum(data: bytearray) -> None:
    data[data.index(b"first")] ^= 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (overlapping, "twice|overlaps"),
        (oversized, "directory"),
        (encrypted, "encrypted"),
        (renamed, "disagree"),
        (commented, "end record"),
        (counted_wrong, "more in its directory"),
        (wrong_checksum, "checksum"),
    ],
)
def test_tricks_are_refused(change: Callable[[bytearray], None], why: str) -> None:
    data = bytearray(made({"a": b"first", "b": b"second"}))
    change(data)
    with pytest.raises(Refusal, match=why):
        read(bytes(data)).checked("a", 100)


def test_members_that_share_bytes_are_refused() -> None:
    inner = made({"inner": b"x"})[: 30 + len("inner") + 1]
    data = bytearray(made({"outer": inner, "inner": b"x"}))
    entry = data.rindex(b"PK\1\2")
    struct.pack_into("<I", data, entry + 42, 30 + len("outer"))
    with pytest.raises(Refusal, match="overlaps"):
        read(bytes(data))


def test_compressed_members_are_refused() -> None:
    with pytest.raises(Refusal, match="a: compressed"):
        read(made({"a": bytes(1000)}, method=zipfile.ZIP_DEFLATED))


def test_large_members_are_not_copied() -> None:
    with pytest.raises(Refusal, match="at most 10"):
        read(made({"a": bytes(11)})).checked("a", 10)


def test_a_prefix_before_the_archive_is_refused() -> None:
    with pytest.raises(Refusal):
        read(b"#!/bin/sh\n" + made({"a": b"x"}))


@given(position=st.integers(0, 400), value=st.integers(0, 255))
def test_damage_is_refused_or_harmless(position: int, value: int) -> None:
    data = bytearray(large({"a": b"first", "b": b"second"}))
    data[position % len(data)] = value
    try:
        archive = read(bytes(data))
    except Refusal:
        return
    assert sum(member.size for member in archive.members.values()) <= len(data)

"""A strict reader of the zip archives that torch writes: stored members, found without copying.

Only what such an archive needs is understood (zip specification 6.3.10, sections 4.3 and 4.5.3);
anything else is refused: compression, encryption, comments, overlaps, split archives.
"""

import mmap
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from .refusal import Refusal

MAX_MEMBERS = 1_000_000
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_FLAGS = 0x0808  # sizes after the data; names in UTF-8
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF


@dataclass(frozen=True)
class Member:
    """A stored file: where its local header and its bytes lie in the archive."""

    header: int
    start: int
    size: int
    crc: int


class Archive:
    """The members of the archive in `data`, by name.

    Raises Refusal where the archive is truncated, inconsistent or not of this plain kind.
    """

    def __init__(self, data: memoryview) -> None:
        """Read the directory and check every member's place."""
        self._data = data
        try:
            self.members = dict(self._entries())
        except (struct.error, UnicodeDecodeError) as error:
            raise Refusal(f"damaged zip archive: {error}") from error
        self._check_places()

    def view(self, name: str) -> memoryview:
        """The bytes of a member, not copied."""
        member = self.members[name]
        return self._data[member.start : member.start + member.size]

    def checked(self, name: str, limit: int) -> bytes:
        """The bytes of a small member, checked against its CRC (0 stands for none)."""
        member = self.members[name]
        if member.size > limit:
            raise Refusal(f"{name}: {member.size} bytes; at most {limit} are read")
        content = bytes(self.view(name))
        if member.crc not in (0, zlib.crc32(content)):
            raise Refusal(f"{name}: its bytes do not have the checksum the archive gives")
        return content

    def _directory(self) -> tuple[int, int, int]:
        """Number of entries, first byte and end of the central directory."""
        data, end = self._data, len(self._data) - _END.size
        if end < 0 or bytes(data[end : end + 4]) != b"PK\5\6":
            raise Refusal("truncated: no end record of a zip archive at the end of the file")
        _, disk, disk2, here, count, size, start, comment = _END.unpack_from(data, end)
        if disk or disk2 or comment or here != count:
            raise Refusal("zip archive in several parts or with a comment: not written by torch")
        locator = end - _LOCATOR.size
        if locator < 0 or bytes(data[locator : locator + 4]) != b"PK\6\7":
            return self._within(count, start, size, end)
        _, _, end64, disks = _LOCATOR.unpack_from(data, locator)
        if disks != 1 or end64 + _END64.size != locator:
            raise Refusal("zip archive whose large end record is not where it should be")
        found = _END64.unpack_from(data, end64)
        signature, length, _, _, disk, disk2, here64, count64, size64, start64 = found
        if signature != b"PK\6\6" or length != _END64.size - 12 or disk or disk2:
            raise Refusal("zip archive with a damaged large end record")
        pairs = ((count, count64, _FULL16), (size, size64, _FULL32), (start, start64, _FULL32))
        if here64 != count64 or any(small not in (big, full) for small, big, full in pairs):
            raise Refusal("zip archive whose two end records disagree")
        return self._within(count64, start64, size64, end64)

    def _within(self, count: int, start: int, size: int, end: int) -> tuple[int, int, int]:
        if start + size != end:
            raise Refusal("zip archive whose directory does not end where it says")
        if count > MAX_MEMBERS:
            raise Refusal(f"zip archive of {count} members; at most {MAX_MEMBERS} are read")
        return count, start, end

    def _entries(self) -> list[tuple[str, Member]]:
        count, position, self._end = self._directory()
        self._start, entries = position, []
        seen: set[str] = set()
        for _ in range(count):
            entry = _ENTRY.unpack_from(self._data, position)
            signature, _, _, flags, method, _, _, crc, packed, size = entry[:10]
            name_length, extra_length, comment, disk, _, _, header = entry[10:]
            name_at = position + _ENTRY.size
            extra_at = name_at + name_length
            position = extra_at + extra_length + comment
            if signature != b"PK\1\2" or position > self._end or disk:
                raise Refusal("zip archive with a damaged directory")
            raw = bytes(self._data[name_at:extra_at])
            name = raw.decode()
            size, packed, header = _large(
                bytes(self._data[extra_at : extra_at + extra_length]), [size, packed, header]
            )
            if method or packed != size:
                raise Refusal(f"{name}: compressed; torch stores without compression")
            if flags & ~_FLAGS or name in seen:
                raise Refusal(f"{name}: encrypted, or stands twice in the zip archive")
            seen.add(name)
            start = self._local(header, raw, flags)
            entries.append((name, Member(header, start, size, crc)))
        if position != self._end:
            raise Refusal("zip archive with more in its directory than it counts")
        return entries

    def _local(self, header: int, name: bytes, flags: int) -> int:
        """First byte of the data behind a local header that must agree with the directory."""
        found = _LOCAL.unpack_from(self._data, header)
        signature, _, local_flags, method, *_, name_length, extra_length = found
        start = header + _LOCAL.size
        local_name = bytes(self._data[start : start + name_length])
        if (signature, local_flags, method, local_name) != (b"PK\3\4", flags, 0, name):
            raise Refusal("zip archive whose directory and local headers disagree")
        return int(start + name_length + extra_length)

    def _check_places(self) -> None:
        free = 0
        for name, member in sorted(self.members.items(), key=lambda item: item[1].header):
            if member.header < free:
                raise Refusal(f"{name}: overlaps another member of the zip archive")
            free = member.start + member.size
            if free > self._start:
                raise Refusal(f"{name}: reaches into the zip archive's directory")


def _large(extra: bytes, sizes: list[int]) -> list[int]:
    """Replace the sizes that did not fit in 32 bits by those of the zip64 extra field."""
    wanted = [index for index, value in enumerate(sizes) if value == _FULL32]
    position = 0
    while wanted and position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        position += 4
        if kind == 1:
            values = struct.unpack_from(f"<{len(wanted)}Q", extra[: position + length], position)
            for index, value in zip(wanted, values, strict=True):
                sizes[index] = value
            return sizes
        position += length
    if wanted:
        raise Refusal("zip archive with a large member but no large size for it")
    return sizes


def map_file(path: Path) -> memoryview:
    """The bytes of a file, mapped into memory and read as they are used."""
    with path.open("rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:  # nothing to map
            raise Refusal("the file is empty") from error
    mapped.madvise(mmap.MADV_SEQUENTIAL)
    return memoryview(mapped)

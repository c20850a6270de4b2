"""Raw text in blocks: pieces of files that a worker reads and tokenises on its own.

Blocks follow from the files alone (never from the number of processes), are read streaming, and
their documents, in order, are the split's documents.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.data.pins import document_range
from harness.errors import Refused

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import parquet

_BLOCK = 1 << 20  # bytes of text
_LARGE = 32 << 20  # a row group beyond this is divided, at the price of reading it again
_TEXTS = 512  # documents read at once


class Block(Protocol):
    """A run of documents."""

    @property
    def documents(self) -> int:
        """How many documents."""
        ...

    def texts(self) -> Iterator[list[str]]:
        """The documents, some at a time."""
        ...


@dataclass(frozen=True)
class LinesBlock:
    """Documents of a JSON-lines file, by byte range."""

    path: Path
    start: int
    stop: int
    documents: int

    def texts(self) -> Iterator[list[str]]:
        """The `text` of each line."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            lines = file.read(self.stop - self.start).splitlines()
        try:
            texts = [json.loads(line)["text"] for line in lines]
        except (ValueError, LookupError, TypeError) as error:
            raise Refused(f"{self.path}: a line is no JSON object with a text") from error
        yield _strings(self.path, texts)


def _strings(path: Path, texts: list[Any]) -> list[str]:
    if not all(isinstance(text, str) for text in texts):
        raise Refused(f"{path}: a text is null, or no string; pin a revision that has them all")
    return texts


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what pyarrow raises into one line that names the file."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise Refused(f"{path}: no readable Parquet file ({reason})") from error


@lru_cache(2)
def _opened(path: Path) -> "parquet.ParquetFile":
    """A Parquet file, its footer parsed once a process and not once a block.

    Read page by page: a column of a large row group is not brought into memory whole.
    """
    from pyarrow import parquet

    return parquet.ParquetFile(path, buffer_size=_BLOCK, pre_buffer=False)


@dataclass(frozen=True)
class ParquetBlock:
    """Documents `start` to `stop` of some row groups of a Parquet file."""

    path: Path
    groups: tuple[int, ...]
    start: int
    stop: int

    @property
    def documents(self) -> int:
        """How many documents."""
        return self.stop - self.start

    def texts(self) -> Iterator[list[str]]:
        """The `text` column, read batch by batch."""
        at = 0
        for batch in self._batches():
            first, last = max(self.start - at, 0), min(self.stop - at, batch.num_rows)
            if first < last:
                texts = batch.column(0).slice(first, last - first).to_pylist()
                yield _strings(self.path, texts)
            at += batch.num_rows
            if at >= self.stop:
                break

    def _batches(self) -> Iterator["pyarrow.RecordBatch"]:
        groups = list(self.groups)
        with _reading(self.path):
            yield from _opened(self.path).iter_batches(_TEXTS, row_groups=groups, columns=["text"])


@dataclass(frozen=True)
class _Part:
    """A block's worth of one file, before the split's bounds are known.

    `start` and `stop` are bytes in a lines file; in Parquet `start` is the first document within
    the row groups.
    """

    documents: int
    path: Path
    start: int = 0
    stop: int = 0
    groups: tuple[int, ...] = ()

    def block(self, first: int, last: int) -> Block:
        """The block of documents `first` to `last` of this part."""
        if self.groups:
            return ParquetBlock(self.path, self.groups, self.start + first, self.start + last)
        if (first, last) != (0, self.documents):
            raise Refused(f"{self.path}: a split of JSON lines takes whole files")
        return LinesBlock(self.path, self.start, self.stop, self.documents)


def _lines(path: Path) -> Iterator[_Part]:
    start = count = at = 0
    with path.open("rb") as file:
        for line in file:
            at, count = at + len(line), count + 1
            if at - start >= _BLOCK:
                yield _Part(count, path, start, at)
                start, count = at, 0
    if count:
        yield _Part(count, path, start, at)


def _row_groups(path: Path) -> Iterator[_Part]:
    from pyarrow import parquet

    groups: list[int] = []
    size = count = 0
    with _reading(path), parquet.ParquetFile(path) as file:
        if "text" not in file.schema_arrow.names:
            raise Refused(f"{path}: has no column text, but {', '.join(file.schema_arrow.names)}")
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            if group.total_byte_size > _LARGE:
                if count:
                    yield _Part(count, path, groups=tuple(groups))
                    groups, size, count = [], 0, 0
                yield from _pieces(path, number, group.num_rows, group.total_byte_size)
                continue
            groups.append(number)
            size, count = size + group.total_byte_size, count + group.num_rows
            if size >= _BLOCK:
                yield _Part(count, path, groups=tuple(groups))
                groups, size, count = [], 0, 0
    if count:
        yield _Part(count, path, groups=tuple(groups))


def _pieces(path: Path, group: int, rows: int, size: int) -> Iterator[_Part]:
    """A large row group in parts whose tokens fit into memory many times over."""
    step = max(1, rows * _LARGE // size)
    for start in range(0, rows, step):
        yield _Part(min(step, rows - start), path, start=start, groups=(group,))


def plan(files: Sequence[Path], expression: str) -> list[Block]:
    """The blocks of a split: the documents that `expression` takes of `files`, in order.

    Raises Refused where a file is absent, or no Parquet file with texts where its name says so.
    """
    parts: list[_Part] = []
    for path in files:
        if not path.is_file():
            raise Refused(f"{path}: not there; fetch the dataset first")
        parts += _row_groups(path) if path.suffix == ".parquet" else _lines(path)
    wanted = document_range(expression, sum(part.documents for part in parts))
    blocks, at = [], 0
    for part in parts:
        first, last = max(wanted.start - at, 0), min(wanted.stop - at, part.documents)
        if first < last:
            blocks.append(part.block(first, last))
        at += part.documents
    return blocks

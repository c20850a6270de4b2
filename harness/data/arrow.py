"""HF dataset folders that datasets 2.15 to 5.x read alike: written in shards, read mapped.

A folder holds Arrow stream files, `state.json` (which names them) and `dataset_info.json`. The
features are written as `Sequence`, which every version knows; `List` is unknown before 4.0.
Every row carries its all-one attention mask: the column is one constant buffer here, and no
later step has to touch the token data to add it.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from harness.data.packing import Tokens
from harness.errors import Refused
from harness.files import naming
from harness.json_files import publish_json, read_json

if TYPE_CHECKING:
    import pyarrow

BATCH_TOKENS = 1 << 20
SHARD_TOKENS = 1 << 27
_COLUMNS = {"input_ids": "uint16", "attention_mask": "int8"}


@dataclass(frozen=True)
class Shard:
    """A finished Arrow file of a split."""

    name: str
    rows: int
    size: int
    sha256: str
    smallest: int
    largest: int


def _features(length: int) -> dict[str, object]:
    return {
        name: {
            "feature": {"dtype": dtype, "_type": "Value"},
            "length": length,
            "_type": "Sequence",
        }
        for name, dtype in _COLUMNS.items()
    }


def _schema(length: int) -> "pyarrow.Schema":
    import pyarrow

    fields = [
        pyarrow.field(name, pyarrow.list_(getattr(pyarrow, dtype)(), length))
        for name, dtype in _COLUMNS.items()
    ]
    about = json.dumps({"info": {"features": _features(length)}})
    return pyarrow.schema(fields, metadata={"huggingface": about})


def rows_per_shard(length: int) -> int:
    """How many rows every shard but a split's last holds."""
    return SHARD_TOKENS // length


class _Hashed:
    """A file that digests what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest, self.size, self.closed = (
            file,
            hashlib.sha256(),
            0,
            False,
        )

    def write(self, data: object) -> int:
        block = memoryview(data).cast("B")  # type: ignore[arg-type]
        self.digest.update(block)
        self.size += len(block)
        return self.file.write(block)

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.closed = True


class ShardWriter:
    """Writes rows to one Arrow file; batches have a fixed number of rows, so bytes are fixed."""

    def __init__(self, path: Path, length: int) -> None:
        """Create `path`, replacing what a killed writer left."""
        import pyarrow

        self.path, self.length, self.rows = path, length, 0
        self.smallest, self.largest = 1 << 16, 0
        self._batch = max(1, BATCH_TOKENS // length)
        self._pending: list[Tokens] = []
        self._waiting = 0
        self._mask = np.ones(self._batch * length, np.int8)
        self._schema = _schema(length)
        self._file = path.open("wb")
        self._sink = _Hashed(self._file)
        with naming(path):
            sink = pyarrow.PythonFile(self._sink, "w")
            self._stream = pyarrow.ipc.new_stream(sink, self._schema)

    def append(self, rows: Tokens) -> None:
        """Add rows, shape (rows, length)."""
        with naming(self.path):
            self._append(rows)

    def _append(self, rows: Tokens) -> None:
        self._pending.append(rows)
        self._waiting += len(rows)
        self.rows += len(rows)
        if self._waiting >= self._batch:
            whole = np.concatenate(self._pending)
            end = len(whole) // self._batch * self._batch
            for start in range(0, end, self._batch):
                self._write(whole[start : start + self._batch])
            self._pending, self._waiting = [whole[end:].copy()], len(whole) - end

    def _write(self, rows: Tokens) -> None:
        import pyarrow

        self.smallest = min(self.smallest, int(rows.min()))
        self.largest = max(self.largest, int(rows.max()))
        flat = rows.reshape(-1)
        columns = [
            pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values), type=field.type)
            for values, field in zip((flat, self._mask[: flat.size]), self._schema, strict=True)
        ]
        self._stream.write_batch(pyarrow.record_batch(columns, schema=self._schema))

    def finish(self) -> Shard:
        """Write the last batch, flush to disk, and say what was written."""
        with naming(self.path):
            return self._finish()

    def _finish(self) -> Shard:
        rest = np.concatenate(self._pending) if self._waiting else None
        if rest is not None and len(rest):
            self._write(rest)
        self._stream.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        digest, size = self._sink.digest.hexdigest(), self._sink.size
        return Shard(self.path.name, self.rows, size, digest, self.smallest, self.largest)


def write_folder_records(
    folder: Path, split: str, length: int, shards: list[str], fingerprint: str
) -> None:
    """Write `dataset_info.json` and `state.json` beside the shards named."""
    info = dict.fromkeys(("citation", "description", "homepage", "license"), "")
    publish_json(folder / "dataset_info.json", {**info, "features": _features(length)})
    state: dict[str, object] = {
        "_data_files": [{"filename": name} for name in shards],
        "_fingerprint": fingerprint[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": split,
    }
    publish_json(folder / "state.json", state)


def shard_paths(folder: Path) -> list[Path]:
    """The Arrow files that a folder's `state.json` names, in order."""
    state = read_json(folder / "state.json")
    listed = state.get("_data_files") if isinstance(state, dict) else None
    entries = listed if isinstance(listed, list) else [None]
    names = [entry.get("filename") if isinstance(entry, dict) else None for entry in entries]
    if not all(isinstance(name, str) and re.fullmatch(r"[\w-][\w.-]*", name) for name in names):
        raise Refused(f"{folder / 'state.json'}: does not name the data files")
    return [folder / name for name in names if name]


def batches(
    path: Path, length: int
) -> Iterator[tuple[Tokens, "np.ndarray[tuple[int, int], np.dtype[np.int8]]"]]:
    """Each batch of a shard as views into the mapped file: ids and masks, (rows, length).

    Raises Refused where the file is no Arrow stream of these columns with rows of this length.
    """
    import pyarrow

    try:
        with (
            pyarrow.memory_map(str(path)) as source,
            pyarrow.ipc.open_stream(source) as stream,
        ):
            if not stream.schema.equals(_schema(length)):
                raise Refused(f"{path}: columns are not ids and masks of length {length}")
            for batch in stream:
                batch.validate(full=True)  # numbers in the file may point out of it
                if any(column.null_count for column in batch.columns):
                    raise Refused(f"{path}: has rows that are null; prepare again")
                ids, masks = (column.flatten().to_numpy() for column in batch.columns)
                yield ids.reshape(-1, length), masks.reshape(-1, length)
    except (pyarrow.ArrowException, ValueError) as error:
        raise Refused(f"{path}: no readable Arrow stream ({error}); prepare again") from error

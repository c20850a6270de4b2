"""Token rows in memory-mapped Arrow files, and the order in which training takes them.

A set is a folder as `datasets` writes it: Arrow stream files, named in order by `state.json`.
Sets are packed, so every row is whole and its attention mask all ones: only ids are read.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow
import torch
from numpy.typing import NDArray
from torch import Tensor


class Rows:
    """The rows of a set, read from the mapped files when they are taken."""

    def __init__(self, folder: Path, length: int) -> None:
        """Map the files. A folder that is no set of rows of this length ends the program."""
        try:
            state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        except OSError as error:
            sys.exit(f"{folder}: no prepared data set ({error.strerror}: state.json)")
        self.length = length
        self.blocks: list[NDArray[np.integer]] = []
        for entry in state["_data_files"]:
            table = pyarrow.ipc.open_stream(pyarrow.memory_map(str(folder / entry["filename"])))
            for batch in table:
                ids = batch.column("input_ids").flatten().to_numpy(zero_copy_only=True)
                if len(ids) != batch.num_rows * length:
                    sys.exit(f"{folder}: rows are not {length} tokens long, as model.length says")
                self.blocks.append(ids.reshape(-1, length))
        self.starts = np.cumsum([0, *(len(block) for block in self.blocks)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def take(self, places: NDArray[np.int64]) -> Tensor:
        """The rows at `places`, (len(places), length), int64."""
        out = np.empty((len(places), self.length), np.int64)
        blocks = np.searchsorted(self.starts, places, side="right") - 1
        for row, (block, place) in enumerate(zip(blocks, places, strict=True)):
            out[row] = self.blocks[block][place - self.starts[block]]
        return torch.from_numpy(out)

    def counts(self, vocabulary: int) -> NDArray[np.int64]:
        """How often each token stands in the set. A token outside the vocabulary ends it all."""
        total = np.zeros(vocabulary, np.int64)
        for block in self.blocks:
            found = np.bincount(block.reshape(-1), minlength=vocabulary)
            if len(found) > vocabulary:
                sys.exit(f"token {len(found) - 1}: outside the vocabulary of {vocabulary}")
            total += found
        return total


class Order:
    """A shuffled pass over the rows, then another; the position is (epoch, batch).

    An epoch's order follows from seed and epoch alone, and a position says all that has been
    taken, so going on from a stored position takes exactly what would have come. The rows that
    do not fill a global batch at an epoch's end are left out of that epoch.
    """

    def __init__(self, rows: int, batch: int, seed: int) -> None:
        """`batch` is the global batch, over all processes and accumulated parts."""
        if rows < batch:
            sys.exit(f"{rows} training rows: fewer than one global batch of {batch}")
        self.rows, self.size, self.seed = rows, batch, seed
        self.epoch, self.batch = 0, 0
        self._shuffled: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, np.int64))

    @property
    def batches(self) -> int:
        """How many global batches an epoch has."""
        return self.rows // self.size

    def next(self) -> NDArray[np.int64]:
        """The rows of the next global batch; the position moves on."""
        if self._shuffled[0] != self.epoch:
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
            shuffled = torch.randperm(self.rows, generator=generator).numpy()
            self._shuffled = (self.epoch, shuffled)
        taken = self._shuffled[1][self.batch * self.size : (self.batch + 1) * self.size]
        self.epoch, self.batch = divmod(self.epoch * self.batches + self.batch + 1, self.batches)
        return taken

    def state(self) -> dict[str, int]:
        """The position, and what it is a position in."""
        names = ("epoch", "batch", "rows", "size", "seed")
        return {name: getattr(self, name) for name in names}

    def load(self, state: dict[str, int]) -> None:
        """Go to a stored position. One of another data set, batch or seed ends the program."""
        for name in ("rows", "size", "seed"):
            if state[name] != getattr(self, name):
                sys.exit(
                    f"the checkpoint's data order has {name} {state[name]}, this run "
                    f"{getattr(self, name)}: it belongs to another run"
                )
        self.epoch, self.batch = state["epoch"], state["batch"]

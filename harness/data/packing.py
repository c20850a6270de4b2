"""Packing `document_eos_continuous_bos_eos`, version 1, vectorised.

The stream of all documents, each followed by EOS, is cut into chunks of `length - 2`; each full
chunk becomes the row BOS + chunk + EOS; the last incomplete chunk is dropped.
"""

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.uint16]


class Packer:
    """Cuts a stream that arrives in pieces of any size into rows."""

    def __init__(self, length: int, bos: int, eos: int) -> None:
        """Rows will be `length` ids long, `length - 2` of them from the stream."""
        self.length, self.bos, self.eos = length, bos, eos
        self._rest: Tokens = np.empty(0, np.uint16)

    def feed(self, tokens: Tokens) -> Tokens:
        """The rows that `tokens` complete: shape (rows, length). The remainder is kept."""
        inner = self.length - 2
        joined = np.concatenate((self._rest, tokens)) if len(self._rest) else tokens
        count = len(joined) // inner
        rows = np.empty((count, self.length), np.uint16)
        rows[:, 0], rows[:, -1] = self.bos, self.eos
        rows[:, 1:-1] = joined[: count * inner].reshape(count, inner)
        self._rest = joined[count * inner :].copy()
        return rows

"""Windows of whole sentences over the stores, and the prefix of one that a sample keeps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensemble.stores import Store

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Windows:
    """The windows of several stores, numbered through; arrays are (windows,).

    A window is one or more whole sentences of one document, `targets` tokens from `starts` of
    its store; what is given before the first is BOS.
    """

    stores: tuple[Store, ...]
    store: Counts
    starts: Counts
    targets: Counts
    characters: Counts

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, number: int) -> Counts:
        """The numbers of one store's windows."""
        return np.flatnonzero(self.store == number)

    def tokens(self, window: int, kept: int) -> NDArray[np.uint16]:
        """The first `kept` targets of a window."""
        start = int(self.starts[window])
        return self.stores[int(self.store[window])].tokens[start : start + kept]


def index(stores: Sequence[Store], context: int) -> Windows:
    """Windows of at most `context` targets: each takes the sentences that fit, of one document."""
    parts = [_index(store, context) for store in stores]
    owner = np.concatenate([np.full(len(part[0]), n) for n, part in enumerate(parts)])
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Windows(tuple(stores), owner, *joined)


def _index(store: Store, context: int) -> tuple[Counts, Counts, Counts]:
    lengths, characters, ends = (store.sentences[:, n].astype(np.int64) for n in range(3))
    before = np.concatenate(([0], np.cumsum(lengths)))
    letters = np.concatenate(([0], np.cumsum(characters)))
    # For every sentence: the one after the last that fits with it, within its document.
    after = np.searchsorted(before, before[:-1] + context, side="right") - 1
    document_ends = np.flatnonzero(ends) + 1
    own_end = document_ends[np.searchsorted(document_ends, np.arange(len(lengths)), side="right")]
    following = np.minimum(after, own_end).tolist()
    first = [0]
    while (at := following[first[-1]]) < len(lengths):
        first.append(at)
    bounds = np.array([*first, len(lengths)])
    starts = before[bounds]
    return starts[:-1], np.diff(starts), np.diff(letters[bounds])


def kept(
    seed: int, epoch: int, samples: Counts, targets: Counts, probability: float, minimum: int
) -> Counts:
    """How many of its targets each sample keeps in an epoch: a prefix, or all of them.

    With `probability` the length is uniform from `minimum` to whole. It depends on nothing but
    seed, epoch and the sample's number, so no order and no batching can change it.
    """
    chance, share = (_uniform(seed, epoch, samples, salt) for salt in (1, 2))
    lowest = np.minimum(minimum, targets)
    cropped = lowest + (share * (targets - lowest + 1)).astype(np.int64)
    return np.where(chance < probability, cropped, targets)


def _uniform(seed: int, epoch: int, samples: Counts, salt: int) -> NDArray[np.float64]:
    """Numbers in [0, 1), a hash of all four."""
    state = samples.astype(np.uint64)
    for value in (seed, epoch, salt):
        state = _mixed(state + np.uint64(value * 0x9E3779B97F4A7C15 & (1 << 64) - 1))
    return (state >> np.uint64(11)) * 2.0**-53


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014, section 3)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))

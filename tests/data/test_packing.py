"""Packing against a reference in plain Python, for any documents and any pieces."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.data.packing import Packer

IDS = st.integers(0, 65535)


def reference(documents: list[list[int]], length: int, bos: int, eos: int) -> list[list[int]]:
    stream = [token for document in documents for token in [*document, eos]]
    inner = length - 2
    chunks = [stream[at : at + inner] for at in range(0, len(stream), inner)]
    return [[bos, *chunk, eos] for chunk in chunks if len(chunk) == inner]


@given(st.lists(st.lists(IDS, max_size=20), max_size=20), st.integers(3, 9), IDS, IDS, st.data())
def test_rows_are_the_references_however_the_stream_arrives(
    documents: list[list[int]], length: int, bos: int, eos: int, data: st.DataObject
) -> None:
    stream = [token for document in documents for token in [*document, eos]]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    packer = Packer(length, bos, eos)
    rows = [np.empty((0, length), np.uint16)]
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        rows.append(packer.feed(np.array(stream[start:stop], np.uint16)))
    assert np.concatenate(rows).tolist() == reference(documents, length, bos, eos)


def test_a_row_does_not_change_when_more_arrives() -> None:
    packer = Packer(4, 1, 2)
    first = packer.feed(np.array([5, 6, 7], np.uint16))
    before = first.copy()
    packer.feed(np.array([8, 9, 10], np.uint16))
    assert (first == before).all()

"""Rows come back as written; the order is a shuffle that can be left and taken up anywhere."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data import Order, Rows
from hypothesis import given
from hypothesis import strategies as st

Write = Callable[[str, list[np.ndarray]], Path]


def test_rows_are_those_written_across_shards_and_batches(written: Write) -> None:
    shards = [np.arange(24).reshape(6, 4), 100 + np.arange(12).reshape(3, 4)]
    rows = Rows(written("set", shards), 4)
    everything = np.concatenate(shards)
    assert len(rows) == 9
    places = np.array([8, 0, 3, 5, 6, 2, 2])
    assert np.array_equal(rows.take(places).numpy(), everything[places])
    assert np.array_equal(rows.counts(200), np.bincount(everything.ravel(), minlength=200))


def test_what_is_no_such_set_ends_in_one_line(written: Write, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no prepared data set"):
        Rows(tmp_path / "nothing", 4)
    folder = written("set", [np.arange(24).reshape(6, 4)])
    with pytest.raises(SystemExit, match="not 8 tokens"):
        Rows(folder, 8)
    with pytest.raises(SystemExit, match="token 11"):
        Rows(folder, 4).counts(10)


@given(st.integers(1, 40), st.data(), st.integers(0, 3))
def test_an_epoch_takes_each_row_at_most_once_and_epochs_differ(
    rows: int, data: st.DataObject, seed: int
) -> None:
    batch = data.draw(st.integers(1, rows))
    order = Order(rows, batch, seed)
    for epoch in range(2):
        assert order.epoch == epoch
        taken = np.concatenate([order.next() for _ in range(rows // batch)])
        assert len(set(taken)) == rows // batch * batch
        assert set(taken) <= set(range(rows))


@given(st.integers(1, 30), st.data(), st.integers(0, 3), st.integers(0, 50), st.integers(1, 30))
def test_going_on_from_any_position_takes_what_would_have_come(
    rows: int, data: st.DataObject, seed: int, before: int, after: int
) -> None:
    batch = data.draw(st.integers(1, rows))
    straight, stopped = Order(rows, batch, seed), Order(rows, batch, seed)
    for _ in range(before):
        straight.next()
        stopped.next()
    resumed = Order(rows, batch, seed)
    resumed.load(stopped.state())
    for _ in range(after):
        assert np.array_equal(straight.next(), resumed.next())


def test_order_depends_on_seed_and_epoch() -> None:
    first, second = Order(50, 50, 1), Order(50, 50, 2)
    orders = [first.next(), first.next(), second.next()]
    assert len({tuple(order) for order in orders}) == 3


@pytest.mark.parametrize("other", [Order(50, 5, 1), Order(60, 6, 1), Order(60, 5, 2)])
def test_a_position_in_something_else_is_refused(other: Order) -> None:
    with pytest.raises(SystemExit, match="another run"):
        other.load(Order(60, 5, 1).state())


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(SystemExit, match="fewer than one global batch"):
        Order(3, 4, 0)

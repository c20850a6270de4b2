"""The table that Duo's curriculum reads, against the integral itself."""

import math
import pickle
from pathlib import Path

import duo_integral
import numpy as np
import pytest
import torch


def integrals(gamma: float, vocabulary: int) -> tuple[float, float]:
    """p(gamma) and the gradient table's value, by Gauss and Legendre in short pieces."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    signal, p, gradient = math.exp(-gamma / 2), 0.0, 0.0
    for left in range(-12, 26):
        x = torch.tensor(left + 0.5 + nodes / 2)
        density = torch.exp(-0.5 * (x - signal) ** 2) / math.sqrt(2 * math.pi)
        below = torch.special.ndtr(x) ** (vocabulary - 1)
        piece = torch.tensor(weights) / 2 * density * below
        p += float(piece.sum())
        gradient += float((piece * -0.5 * signal * (x - signal)).sum())
    return p, gradient


@pytest.mark.parametrize("vocabulary", [2, 555, 50257])
def test_the_table_holds_the_integrals(vocabulary: int) -> None:
    table = duo_integral.table(vocabulary)
    assert (table["vocab_size"], table["num_points"]) == (vocabulary, 100_000)
    for index in (0, 1, 37_123, 70_000, 99_999):
        gamma = -5 + 4 * index / 99_999
        p, gradient = integrals(gamma, vocabulary)
        assert table["pt"][index] == pytest.approx(p, rel=1e-9, abs=1e-12)
        assert table["grad_pt"][index] == pytest.approx(gradient, rel=1e-9, abs=1e-12)


def test_the_upstreams_own_table_of_a_vocabulary_is_taken(tmp_path: Path) -> None:
    shipped = tmp_path / "integral"
    shipped.mkdir()
    for vocabulary in (7, 9):
        (shipped / f"{vocabulary}.pkl").write_bytes(pickle.dumps({"vocab_size": vocabulary}))
    duo_integral.provide(tmp_path / "work" / "nine.pkl", 9, shipped)
    assert pickle.loads((tmp_path / "work" / "nine.pkl").read_bytes()) == {"vocab_size": 9}
    duo_integral.provide(tmp_path / "work" / "five.pkl", 5, shipped)
    assert pickle.loads((tmp_path / "work" / "five.pkl").read_bytes())["pt"].shape == (100_000,)
    assert sorted(p.name for p in (tmp_path / "work").iterdir()) == ["five.pkl", "nine.pkl"]


def test_a_table_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "table.pkl").write_bytes(b"mine")
    duo_integral.provide(tmp_path / "table.pkl", 5, tmp_path)
    assert (tmp_path / "table.pkl").read_bytes() == b"mine"

"""The moving average against its closed form."""

import pytest
import torch
from ema import Average
from torch import nn


def test_the_average_weighs_past_values_by_the_growing_decay() -> None:
    parameter = nn.Parameter(torch.tensor([1.0]))
    average = Average([parameter], decay=0.5)
    wanted = 1.0
    for n in range(1, 30):
        parameter.data.fill_(float(n * n))
        average.update()
        decay = min(0.5, (1 + n) / (10 + n))
        wanted = decay * wanted + (1 - decay) * n * n
        assert average.shadow[0].item() == pytest.approx(wanted, rel=1e-5)


def test_averages_stand_in_only_inside_the_context() -> None:
    parameter = nn.Parameter(torch.tensor([1.0, 2.0]))
    average = Average([parameter], decay=0.9)
    parameter.data.fill_(7.0)
    with pytest.raises(RuntimeError), average.applied():
        assert parameter.tolist() == [1.0, 2.0]
        raise RuntimeError
    assert parameter.tolist() == [7.0, 7.0]


def test_state_goes_through_a_checkpoint() -> None:
    parameter = nn.Parameter(torch.tensor([1.0]))
    first, second = Average([parameter], 0.9), Average([parameter], 0.9)
    parameter.data.fill_(5.0)
    first.update()
    second.load(first.state())
    for average in (first, second):
        average.update()
    assert torch.equal(first.shadow[0], second.shadow[0])

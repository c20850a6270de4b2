"""Models for tests, moved away from their start."""

from collections.abc import Callable

import pytest
import torch
from algorithms import Algorithm
from torch import Tensor


def perturbed(module: torch.nn.Module, scale: float = 0.5, seed: int = 0) -> torch.nn.Module:
    """The module with every parameter moved away from its (often zero) start."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter += (scale * noise).to(parameter.dtype)
    return module


def taught(model: Algorithm) -> Algorithm:
    """The model with its teacher, as it starts to train."""
    model.load_teacher()
    return model


def check_gradients(model: Algorithm, loss: Callable[[], Tensor], *names: str) -> None:
    """Compare the gradients of a backbone's parameters with finite differences, in float64.

    `loss` draws the same noise at every call.
    """
    loss().backward()
    for name in names:
        parameter = model.backbone.get_parameter(name)
        direction = torch.randn(parameter.shape, dtype=torch.float64)
        slope = (parameter.grad * direction).sum().item()
        with torch.no_grad():
            parameter += 1e-5 * direction
            up = loss().item()
            parameter -= 2e-5 * direction
            down = loss().item()
            parameter += 1e-5 * direction
        assert abs(slope) > 1e-6, name
        assert (up - down) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-8), name

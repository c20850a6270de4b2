"""Models for tests, moved away from their start."""

import torch
from algorithms import Algorithm


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

"""A reproducibility harness for diffusion language models."""

__version__ = "0.1.0"

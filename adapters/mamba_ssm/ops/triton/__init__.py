"""Kernels of mamba-ssm that the upstreams import."""

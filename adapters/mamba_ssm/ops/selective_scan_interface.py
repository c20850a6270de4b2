"""Selective scans: imported, never called."""

from mamba_ssm import absent

mamba_inner_fn = selective_scan_fn = absent

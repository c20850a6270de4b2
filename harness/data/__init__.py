"""Pinned data: fetching, packing, verifying and handing it to an upstream."""

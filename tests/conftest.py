"""Fixtures shared by all tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sandbox_base


@pytest.fixture(scope="session")
def base() -> Iterator[Path]:
    """A base to sandbox in (see sandbox_base), in a place that every user of the host can read."""
    with tempfile.TemporaryDirectory(prefix="harness-base-") as folder:
        yield sandbox_base.build(Path(folder))

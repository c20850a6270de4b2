"""Tiny stores for the ensemble's trainer."""

from pathlib import Path

import ensemble_runs
import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with `stores`."""
    ensemble_runs.write_stores(tmp_path / "stores")
    return tmp_path

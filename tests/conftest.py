"""Fixtures shared by all tests."""

from pathlib import Path

import pytest
import sandbox_base


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base to sandbox in: see sandbox_base."""
    return sandbox_base.build(tmp_path_factory.mktemp("sandbox"))

"""Fixtures shared by all tests."""

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sandbox_base
from hypothesis import HealthCheck, settings

from harness.project import Project

SOURCE = Path(__file__).parents[1]

# How long one example takes says nothing on a machine that others use too.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture(scope="session")
def base() -> Iterator[Path]:
    """A base to sandbox in (see sandbox_base), in a place that every user of the host can read."""
    with tempfile.TemporaryDirectory(prefix="harness-base-") as folder:
        yield sandbox_base.build(Path(folder))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test draws the same numbers each time; torch alone begins anew in each process."""
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """This checkout, with a root of the test's own that is not there yet."""
    return Project(source=SOURCE, root=tmp_path / "root")

"""A completed run to audit, on a machine that has all it needs."""

from pathlib import Path

import pytest
from run_folders import Here, completed_run
from run_folders import reading as reading

from harness.project import Project


@pytest.fixture(autouse=True)
def checkpoints_are_read_here(reading: None) -> None:
    """See `run_folders`."""


@pytest.fixture
def run(project: Project) -> Path:
    return completed_run(project)


@pytest.fixture
def here(project: Project) -> Here:
    return Here(project)

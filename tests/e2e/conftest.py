"""One training for all tests that need a finished run."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import harness

SMOKE = ("mdlm", "lm1b", "--profile", "smoke")


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A root with a completed smoke run, and what the command printed; nobody changes the run."""
    root = tmp_path_factory.mktemp("first")
    yield root, harness(root, "train", *SMOKE).stdout
    shutil.rmtree(root)

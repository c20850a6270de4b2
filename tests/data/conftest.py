"""A tiny tokenizer, and a project with the embedded one prepared."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from toy_data import toy_work

from harness.data import ready, tokenizer
from harness.data.prepare import Work
from harness.data.progress import silent
from harness.project import Project

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
SOURCE = Path(__file__).parents[2]
TEXTS = [
    "The judge signed the letter .",
    "",
    "A sailor , who saw the harbour , hauled some nets .",
    "word " * 40,
    "Clara bought two boats for $ 40 .",
]


@pytest.fixture(scope="session")
def toy_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WordPiece tokenizer's folder."""
    folder = tmp_path_factory.mktemp("tokenizer")
    for name, data in tokenizer.build("wordpiece", TEXTS * 3).items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def make_work(tmp_path: Path, toy_tokenizer: Path) -> Callable[..., Work]:
    """Make a Work of given documents, length and processes, in a fresh data folder."""
    return partial(toy_work, tmp_path, toy_tokenizer)


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project in which the embedded LM1B is ready. Read it only."""
    project = Project(source=SOURCE, root=tmp_path_factory.mktemp("smoke"))
    ready.prepare_embedded(project, "smoke-lm1b", silent)
    yield project


@pytest.fixture
def smoke_copy(smoke: Project, tmp_path: Path) -> Project:
    """A copy of the ready project that a test may spoil."""
    import shutil

    shutil.copytree(smoke.data, tmp_path / "copy" / "data", symlinks=True)
    return Project(source=SOURCE, root=tmp_path / "copy")

"""A small source tree with locks of its own, on this machine's base."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import lock, nix
from harness.files import sha256_file
from harness.project import Project

SOURCE = Path(__file__).parents[2]

MakeLock = Callable[..., None]


@pytest.fixture(scope="session")
def tools() -> nix.Environment:
    """What builds environments, fetched with the user's own settings."""
    return nix.realise(Project(source=SOURCE, root=SOURCE), "build")


@pytest.fixture
def project(tools: nix.Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose state is its own; pip knows only the folder `index` beside it."""
    monkeypatch.setenv("HARNESS_BASE", str(tools.base.path))
    monkeypatch.setenv("HARNESS_HOST_PYTHON", str(nix.host_python()))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    source = tmp_path / "source"
    shutil.copytree(SOURCE / "nix", source / "nix", symlinks=True)
    (source / "envs").mkdir()
    shutil.copy(SOURCE / "envs/build.json", source / "envs")
    (tmp_path / "index").mkdir()
    return Project(source=source, root=tmp_path)


@pytest.fixture
def make_lock(project: Project) -> MakeLock:
    """Write a lock of the given files: `make_lock("one", file, ..., extends=())`."""

    def make(name: str, *files: Path, extends: tuple[str, ...] = ()) -> None:
        wheels = []
        for file in files:
            kind = "wheel" if file.suffix == ".whl" else "sdist"
            title, version = file.name.removesuffix(".tar.gz").split("-")[:2]
            wheels.append(lock.Wheel(title, version, file.name, sha256_file(file), kind))
        made = lock.Lock(name, "3.11", lock.PLATFORM, extends, tuple(wheels), ())
        record = json.dumps(made.record())
        (project.source / "envs" / f"{name}.json").write_text(record)

    return make

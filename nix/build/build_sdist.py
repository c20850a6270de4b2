"""Build a source distribution into a wheel, offline, with setuptools from the pinned tools."""

import os
import sys
import tarfile
import zipfile
from pathlib import Path


def build(sdist: Path, tools: list[str], scratch: Path) -> Path:
    """The wheel built from `sdist` in `scratch`, with the pure wheels `tools` (setuptools)."""
    backend = scratch / "tools"
    for tool in tools:
        with zipfile.ZipFile(tool) as archive:
            archive.extractall(backend)
    sys.path.insert(0, str(backend))
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch / "source")
    (tree,) = (scratch / "source").iterdir()
    wheels = scratch / "wheels"
    wheels.mkdir()
    # Zip entries hold no time before 1980; any fixed one makes the wheel reproducible.
    os.environ["SOURCE_DATE_EPOCH"] = "315532800"
    os.chdir(tree)
    from setuptools import build_meta

    # PEP 517: what names no backend is built from its own folder, where setup.py may import.
    hooks = build_meta if Path("pyproject.toml").is_file() else build_meta.__legacy__
    return wheels / hooks.build_wheel(str(wheels))

"""A finished smoke run beside what `records/` says its launch gave."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.project import Project
from harness.records import launch_sha256, of_choices

SOURCE = Path(__file__).parents[1]


def check(run: Path) -> None:
    """Assert that a run gave the recorded tensors on its base, and similar values on others."""
    identity, completed = (read(run / f"{name}.json") for name in ("identity", "completed"))
    recipe = identity["recipe"]
    known = of_choices(Project(SOURCE, SOURCE), recipe["model"], recipe["dataset"])
    assert known is not None, "no such launch is recorded; record it: harness record RUN"
    groups = completed["checkpoint"]["tensors"]
    tensors = {name: group["digest"] for name, group in groups.items()}
    for result in known["results"]:
        if result["base"] == identity["environment"]["base"]:
            assert result["tensors"] == tensors, (
                "this base gave other tensors when the launch was recorded; if the trainer was "
                "changed on purpose, record a fresh run: harness record RUN"
            )
            if launch_sha256(identity) == known["launch_sha256"]:
                assert result["identity_sha256"] == completed["identity_sha256"]
        # On another base libc and libm differ: not bit for bit, but close.
        for name, value in result["metrics"].items():
            assert completed["metrics"][name] == pytest.approx(value, rel=0.1), name


def read(path: Path) -> Any:
    """The JSON value in a file."""
    return json.loads(path.read_text())

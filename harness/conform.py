"""Conformity: an upstream's own code, shrunk, run twice by the whole harness, and compared.

A row of the table in docs/conformance.md is read from the two run folders alone.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harness import folder, sources
from harness.plan import Choices, Plan
from harness.project import Project
from harness.recipes import Catalogue
from harness.schemas import read_record

PROFILE = "conform"
HEADER = ("model", "commit", "environment", "steps", "tensors of both runs", "seconds", "verdict")


@dataclass(frozen=True)
class Row:
    """What two runs of a model gave: `tensors` are digests over names, types, shapes and bytes."""

    model: str
    commit: str
    near: bool
    environment: str
    steps: int
    tensors: tuple[str, str]
    seconds: float

    @property
    def equal(self) -> bool:
        """Whether every tensor of one run's checkpoint is in the other's, bit for bit."""
        return self.tensors[0] == self.tensors[1]

    def cells(self) -> tuple[str, ...]:
        """The row as the table has it."""
        return (
            self.model,
            f"`{self.commit[:12]}`" + (" (not the pin)" if self.near else ""),
            self.environment,
            str(self.steps),
            ", ".join(f"`{digest[:16]}`" for digest in dict.fromkeys(self.tensors)),
            f"{self.seconds:.0f}",
            "equal" if self.equal else "DIFFER",
        )


def models(project: Project, catalogue: Catalogue, dataset: str) -> tuple[str, ...]:
    """The models on `dataset` whose code is an upstream's, in the recipes' order."""
    upstream = sources.pins(project)
    return tuple(
        model
        for model, on in catalogue.pairs()
        if on == dataset and catalogue.recipe(model, on).source in upstream
    )


def again(first: Plan) -> Choices:
    """The choices of the same launch in a folder of its own."""
    return replace(first.choices, name=f"{first.run.name}-again")


def row(first: Path, second: Path) -> Row:
    """The row of two completed runs of one launch."""
    identity: Any = read_record(first / folder.IDENTITY, "identity")
    done: list[Any] = [folder.completed(run) for run in (first, second)]
    assert len({record["identity_sha256"] for record in done}) == 1
    digests = [record["checkpoint"]["tensors"]["all"]["digest"] for record in done]
    return Row(
        model=identity["recipe"]["model"],
        commit=identity["source"]["commit"],
        near="pinned" in identity["source"],
        environment=identity["environment"]["name"],
        steps=done[0]["checkpoint"]["step"],
        tensors=(digests[0], digests[1]),
        seconds=_seconds(first),
    )


def _seconds(run: Path) -> float:
    """How long the trainer ran, all attempts together, to the second."""
    provenance: Any = read_record(run / folder.PROVENANCE, "provenance")
    spans = [(attempt["started"], attempt["ended"]) for attempt in provenance["attempts"]]
    return sum(
        (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
        for start, end in spans
        if end is not None
    )

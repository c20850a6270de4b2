"""Recorded launches: what the smoke launches gave, on each base they were run on.

`records/launches.json` is kept in the repository, so that anybody who trains one of them can
compare; the tests do. A launch is known by its identity without the base it stands on.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import folder
from harness.canonical import digest
from harness.errors import Refused
from harness.json_files import publish_json
from harness.project import Project
from harness.schemas import read_record

FILE = Path("records", "launches.json")


@dataclass(frozen=True)
class Expected:
    """What a launch gave on one base: its step and its tensors' digests, by group."""

    step: int
    tensors: dict[str, str]


def launch_sha256(identity: dict[str, Any]) -> str:
    """The digest of an identity without its base: equal wherever the same launch is made."""
    environment = {k: v for k, v in identity["environment"].items() if k != "base"}
    return digest({**identity, "environment": environment})


def expected(project: Project, identity: dict[str, Any]) -> Expected | None:
    """What is recorded of this very launch on this very base; None where nothing is."""
    base = identity["environment"]["base"]
    for entry in _entries(project):
        if entry["launch_sha256"] == launch_sha256(identity):
            for result in entry["results"]:
                if result["base"] == base:
                    return Expected(result["step"], result["tensors"])
    return None


def of_choices(project: Project, model: str, dataset: str) -> dict[str, Any] | None:
    """The recorded launch of a model on a dataset, whatever it was made from."""
    found = (e for e in _entries(project) if (e["model"], e["dataset"]) == (model, dataset))
    return next(found, None)


def record(project: Project, run: Path) -> dict[str, Any]:
    """Record a completed run's launch and result; results of another launch of it are dropped.

    Raises Refused where the run is not complete and whole, or not of the profile smoke: others
    take too long to be run again by a test.
    """
    identity: Any = read_record(run / folder.IDENTITY, "identity")
    completed: Any = folder.completed(run)
    provenance: Any = read_record(run / folder.PROVENANCE, "provenance")
    faults = folder.altered(run, completed)
    if faults:
        raise Refused(f"{run}: {faults[0]}; 'harness audit' tells all of it")
    recipe = identity["recipe"]
    if recipe["profile"] != "smoke":
        raise Refused(f"{run}: is of the profile {recipe['profile']}; only smoke runs are recorded")
    launch = launch_sha256(identity)
    result = {
        "base": identity["environment"]["base"],
        "processor": provenance["attempts"][-1]["host"]["processor"],
        "identity_sha256": completed["identity_sha256"],
        "step": completed["checkpoint"]["step"],
        "tensors": {
            name: group["digest"] for name, group in completed["checkpoint"]["tensors"].items()
        },
        "metrics": completed["metrics"],
    }
    key = {**{name: recipe[name] for name in ("model", "dataset")}, "seed": identity["seed"]}
    entries = _entries(project)
    same = [e for e in entries if {name: e[name] for name in key} == key]
    kept = [
        other
        for entry in same
        if entry["launch_sha256"] == launch
        for other in entry["results"]
        if other["base"] != result["base"]
    ]
    entry = {**key, "launch_sha256": launch, "results": [*kept, result]}
    entries = [e for e in entries if e not in same] + [entry]
    entries.sort(key=lambda e: (e["model"], e["dataset"], e["seed"]))
    (project.source / FILE).parent.mkdir(exist_ok=True)
    publish_json(project.source / FILE, {"schema_version": 1, "launches": entries})
    return entry


def _entries(project: Project) -> list[dict[str, Any]]:
    path = project.source / FILE
    if not path.is_file():
        return []
    found: Any = read_record(path, "launches")["launches"]
    return list(found)

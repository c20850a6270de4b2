"""Evaluations: a pinned measurement of a completed run's checkpoint, with an identity of its own.

It runs the trainer's own evaluation in the same sandbox, on the same data, with the argument
list that the run's recipe and the evaluation's entry in `recipes.json` give. Its folder lies
beside the runs, below `evaluations/`: a run's folder never changes again.
"""

import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness import folder, provenance, reuse
from harness.canonical import digest
from harness.complete import METRICS, final_metrics
from harness.errors import HarnessError, Refused
from harness.files import publish_bytes, publish_json, resolve_inside
from harness.identity import Identity, differences
from harness.launch import Launch, ready_launch
from harness.papers import Measured
from harness.plan import Plan
from harness.project import Project
from harness.recipes import load
from harness.run import last_line
from harness.schemas import read_record
from harness.supervise import supervise

SCHEMA = "evaluated"


@dataclass(frozen=True)
class Evaluation:
    """An entry of `evaluations` in `recipes.json`: how a metric is measured."""

    name: str
    title: str
    metric: str
    measure: str
    sources: tuple[str, ...]
    set: Mapping[str, str]
    append: tuple[str, ...]
    setting: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """An evaluation's folder, its record, and whether it was there before."""

    folder: Path
    record: dict[str, Any]
    skipped: bool


def evaluations(project: Project) -> Mapping[str, Evaluation]:
    """Every evaluation, by name."""
    table = load(project.source).tables["evaluations"]
    return {
        name: Evaluation(name, **{**entry, **{k: tuple(entry[k]) for k in ("sources", "append")}})
        for name, entry in table.items()
    }


def ready(project: Project, run: Path, name: str, report: Callable[[str], None]) -> Launch:
    """The launch of the evaluation `name` on the completed run at `run`; nothing is measured yet.

    Raises Refused where the run is not whole, today's pins are not the ones it was made from, or
    the evaluation does not fit it.
    """
    known = evaluations(project)
    if name not in known:
        raise Refused(f"evaluation {name}: unknown; one of {', '.join(known)}")
    completed = reuse.whole(run)
    trained = reuse.trained(project, run)
    launch = ready_launch(project, adapted(trained, known[name], run, project), report)
    return replace(launch, identity=identify(known[name], completed, launch))


def adapted(trained: Plan, evaluation: Evaluation, run: Path, project: Project) -> Plan:
    """A training's plan turned into an evaluation's; Refused where the two do not fit."""
    recipe = trained.recipe
    if recipe.source not in evaluation.sources:
        options = ", ".join(evaluation.sources)
        raise Refused(f"evaluation {evaluation.name}: for {options}, not for {recipe.source}")
    target = resolve_inside(
        project.root, project.root / "evaluations" / f"{run.name}-{evaluation.name}"
    )
    return reuse.turned(trained, run, target, evaluation.set, evaluation.append)


def identify(evaluation: Evaluation, completed: Mapping[str, Any], launch: Launch) -> Identity:
    """All that decides an evaluation: its entry, the run, the checkpoint, and how it is run."""
    checkpoint = completed["checkpoint"]
    document: dict[str, object] = {
        "schema_version": 1,
        "evaluation": {
            "name": evaluation.name,
            "metric": evaluation.metric,
            "measure": evaluation.measure,
            "set": dict(evaluation.set),
            "append": list(evaluation.append),
            "setting": dict(evaluation.setting),
        },
        "run": {
            "identity_sha256": completed["identity_sha256"],
            "checkpoint_sha256": checkpoint["sha256"],
            "step": checkpoint["step"],
            "tensors": {name: group["digest"] for name, group in checkpoint["tensors"].items()},
        },
        "launch": launch.identity.document,
    }
    return Identity(document, digest(document))


def evaluate(launch: Launch) -> Outcome:
    """Measure, or find that it was measured already.

    Raises Refused where the folder holds another evaluation, HarnessError where the trainer's
    evaluation fails or leaves no finite measure.
    """
    target = launch.plan.run
    with folder.locked(target):
        done = _done(target, launch.identity)
        if done is not None:
            return Outcome(target, done, skipped=True)
        shutil.rmtree(target / folder.OUTPUT, ignore_errors=True)
        publish_json(target / folder.IDENTITY, launch.identity.document)
        publish_bytes(target / folder.CONFIG, launch.config)
        (target / folder.OUTPUT).mkdir()
        facts = provenance.begin(target, launch)
        logs = target / folder.STDOUT, target / folder.STDERR
        status = supervise(launch.box(), list(launch.plan.argv), *logs, lambda: False)
        provenance.end(target, facts, status)
        if status:
            raise HarnessError(f"{target}: ended with status {status}: {last_line(logs[1])}")
        return Outcome(target, _complete(target, launch.identity), skipped=False)


def _complete(target: Path, identity: Identity) -> dict[str, Any]:
    measure: Any = identity.document["evaluation"]
    metrics = final_metrics(target / folder.OUTPUT / METRICS)
    value = metrics.get(measure["measure"])
    if value is None or not math.isfinite(value):
        raise HarnessError(f"{target}: it ended well but left no {measure['measure']}")
    body: dict[str, Any] = {
        "schema_version": 1,
        "identity_sha256": identity.sha256,
        "metric": measure["metric"],
        "value": value,
        "metrics": metrics,
        "completed": provenance.now(),
        "files": [asdict(entry) for entry in folder.inventory(target)],
    }
    record = {**body, "sha256": digest(body)}
    publish_json(target / folder.COMPLETED, record)
    return record


def _done(target: Path, identity: Identity) -> dict[str, Any] | None:
    """The record of this very evaluation, where it is complete and whole."""
    if not (target / folder.IDENTITY).exists():
        return None
    found = read_record(target / folder.IDENTITY, "evaluation")
    if digest(found) != identity.sha256:
        fields = ", ".join(differences(found, identity.document)[:4])
        raise Refused(f"{target}: holds another evaluation (differs in {fields}); move it away")
    if not (target / folder.COMPLETED).exists():
        return None
    return completed(target)


def completed(target: Path) -> dict[str, Any]:
    """An evaluation's record. Raises Refused where it, or a file it lists, was altered."""
    record = read_record(target / folder.COMPLETED, SCHEMA)
    body = {name: value for name, value in record.items() if name != "sha256"}
    faults = folder.altered(target, record)
    if record["sha256"] != digest(body):
        faults.append(f"{folder.COMPLETED} does not have its own digest")
    if record["identity_sha256"] != digest(read_record(target / folder.IDENTITY, "evaluation")):
        faults.append(f"{folder.IDENTITY} is another evaluation's")
    if faults:
        raise Refused(f"{target}: {faults[0]}; remove it to evaluate again")
    return record


def measured(project: Project, run: Path) -> dict[str, Measured]:
    """What whole evaluations in the project measured on this run's checkpoint, by metric."""
    return {
        record["metric"]: Measured(record["value"], identity["evaluation"]["setting"])
        for identity, record in of_run(project, run)
    }


def of_run(project: Project, run: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Identity and record of each whole evaluation of this run's checkpoint in the project."""
    own: Any = folder.completed(run)
    for identity, record in _evaluated(project):
        of = identity["run"]
        found = (of["identity_sha256"], of["checkpoint_sha256"])
        if found == (own["identity_sha256"], own["checkpoint"]["sha256"]):
            yield identity, record


def _evaluated(project: Project) -> Iterator[tuple[Any, Any]]:
    for path in sorted((project.root / "evaluations").glob(f"*/{folder.COMPLETED}")):
        try:
            record = completed(path.parent)
            yield read_record(path.with_name(folder.IDENTITY), "evaluation"), record
        except (HarnessError, OSError, ValueError, RecursionError):
            continue

"""Evaluations: a pinned measurement of a completed run's checkpoint, with an identity of its own.

It runs the trainer's own evaluation in the same sandbox, on the same data, with the argument
list that the run's recipe and the evaluation's entry in `recipes.json` give; or the trainer's
sampler, and then a published model that judges the text. Its folder lies beside the runs, below
`evaluations/`: a run's folder never changes again.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from harness import folder, judging, places, provenance, reuse, trees
from harness.canonical import digest
from harness.complete import METRICS, final_metrics
from harness.errors import HarnessError, Refused
from harness.files import open_plain, publish_bytes, resolve_inside
from harness.identity import Identity, differences
from harness.json_files import publish_json
from harness.judging import Judge, Model
from harness.launch import Launch, ready_launch
from harness.logs import before
from harness.papers import Measured
from harness.plan import Plan
from harness.project import Project
from harness.recipes import load
from harness.run import last_line
from harness.sampling import Draw, changes_of
from harness.schemas import read_record
from harness.supervise import supervise

SCHEMA = "evaluated"
SAMPLES = "samples.jsonl"


@dataclass(frozen=True)
class Evaluation:
    """An entry of `evaluations` in `recipes.json`: how a metric is measured.

    `measure` is the metric's name in what the trainer (or the judge) writes; `printed` the name
    that a source's trainer prints it under instead. `models` are the pinned models whose weights
    the trainer itself reads.
    """

    name: str
    title: str
    metric: str
    measure: str
    sources: tuple[str, ...]
    set: Mapping[str, str]
    append: tuple[str, ...]
    setting: Mapping[str, Any]
    printed: Mapping[str, str] = field(default_factory=dict)
    draw: Draw | None = None
    judge: str | None = None
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ready(Launch):
    """An evaluation that is ready to measure; with a `judge`, its launch draws samples."""

    judge: Judge | None = None


@dataclass(frozen=True)
class Outcome:
    """An evaluation's folder, its record, and whether it was there before."""

    folder: Path
    record: dict[str, Any]
    skipped: bool


def evaluations(project: Project) -> Mapping[str, Evaluation]:
    """Every evaluation, by name."""
    table = load(project.source).tables["evaluations"]
    return {name: _evaluation(name, entry) for name, entry in table.items()}


def _evaluation(name: str, entry: Mapping[str, Any]) -> Evaluation:
    lists = {key: tuple(entry.get(key, ())) for key in ("sources", "append", "models")}
    draw = {"draw": Draw(**entry["draw"])} if "draw" in entry else {}
    return Evaluation(name, **{**entry, **lists, **draw})


def ready(project: Project, run: Path, name: str, report: Callable[[str], None]) -> Ready:
    """The launch of the evaluation `name` on the completed run at `run`; nothing is measured yet.

    Raises Refused where the run is not whole, today's pins are not the ones it was made from, the
    evaluation does not fit it, or its judge is not in the cache.
    """
    known = evaluations(project)
    if name not in known:
        raise Refused(f"evaluation {name}: unknown; one of {', '.join(known)}")
    completed = reuse.whole(run)
    planned = adapted(reuse.trained(project, run), known[name], run, project)
    judge = known[name].judge
    chosen = None if judge is None else judging.judge(project, judge)
    models = [judging.model(project, key) for key in known[name].models]
    launch = ready_launch(project, planned, report)
    identity = identify(known[name], completed, launch, chosen, models)
    return Ready(**{**vars(launch), "identity": identity}, judge=chosen)


def adapted(trained: Plan, evaluation: Evaluation, run: Path, project: Project) -> Plan:
    """A training's plan turned into an evaluation's; Refused where the two do not fit."""
    recipe = trained.recipe
    if recipe.source not in evaluation.sources:
        options = ", ".join(evaluation.sources)
        fitting = [e.name for e in evaluations(project).values() if recipe.source in e.sources]
        others = f"; for it: {', '.join(fitting)}" if fitting else ""
        raise Refused(
            f"evaluation {evaluation.name}: for {options}, not for {recipe.source}{others}"
        )
    target = resolve_inside(
        project.root, project.root / "evaluations" / f"{run.name}-{evaluation.name}"
    )
    changes = {key: value.replace("{root}", places.ROOT) for key, value in evaluation.set.items()}
    if evaluation.draw is not None:
        changes |= changes_of(project, recipe.source, evaluation.draw)
    turned = reuse.turned(trained, run, target, changes, evaluation.append)
    seen = {mount.target for mount in turned.mounts}
    shown = [mount for key in evaluation.models for mount in judging.mounts(project, key)]
    return replace(
        turned, mounts=(*turned.mounts, *(one for one in shown if one.target not in seen))
    )


def identify(
    evaluation: Evaluation,
    completed: Mapping[str, Any],
    launch: Launch,
    judge: Judge | None = None,
    models: Sequence[Model] = (),
) -> Identity:
    """All that decides an evaluation: its entry, the run, the checkpoint, and how it is run."""
    checkpoint = completed["checkpoint"]
    printed = evaluation.printed.get(launch.plan.recipe.source)
    document: dict[str, object] = {
        "schema_version": 1,
        "evaluation": {
            "name": evaluation.name,
            "metric": evaluation.metric,
            "measure": evaluation.measure,
            "set": dict(evaluation.set),
            "append": list(evaluation.append),
            "setting": dict(evaluation.setting),
            **({"printed": printed} if printed else {}),
            **({"draw": asdict(evaluation.draw)} if evaluation.draw else {}),
            **({"judge": judge.record()} if judge else {}),
            **({"models": [model.record() for model in models]} if models else {}),
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


def evaluate(launch: Ready) -> Outcome:
    """Measure, or find that it was measured already.

    Raises Refused where the folder holds another evaluation, HarnessError where the trainer's
    evaluation fails or leaves no finite measure.
    """
    target = launch.plan.run
    with folder.locked(target):
        done = _done(target, launch.identity)
        if done is not None:
            return Outcome(target, done, skipped=True)
        trees.remove(target / folder.OUTPUT)
        for name in (SAMPLES, METRICS):  # logs, which would be gone on with
            for log in (target / name, before(target / name)):
                log.unlink(missing_ok=True)
        publish_json(target / folder.IDENTITY, launch.identity.document)
        publish_bytes(target / folder.CONFIG, launch.config)
        (target / folder.OUTPUT).mkdir()
        facts = provenance.begin(target, launch)
        status = _measure(launch, target)
        provenance.end(target, facts, status)
        if status:
            why = last_line(target / folder.STDERR)
            raise HarnessError(f"{target}: ended with status {status}: {why}")
        return Outcome(target, _complete(target, launch.identity), skipped=False)


def _measure(launch: Ready, target: Path) -> int:
    """Run the trainer's evaluation, or its sampler and then the judge; the status to report.

    What the judge reads and says lies beside the output folder, where no sampler can change it.
    """
    argv, log, errors = list(launch.plan.argv), target / folder.STDOUT, target / folder.STDERR
    if launch.judge is None:
        return supervise(launch.box(), argv, log, errors, lambda: False)
    samples = target / SAMPLES
    status = supervise(launch.box(), argv, samples, errors, lambda: False)
    if status:
        return status
    open_plain(samples).close()  # raises where it is a link: a mount would follow it
    told = launch.judge.argv(launch.plan.recipe.number("sequence_length"))
    box = launch.judge.box(samples, launch.project.limits)
    return supervise(box, told, target / METRICS, errors, lambda: False)


def _complete(target: Path, identity: Identity) -> dict[str, Any]:
    measure: Any = identity.document["evaluation"]
    said = target if "judge" in measure else target / folder.OUTPUT
    metrics = final_metrics(said / METRICS)
    if "printed" in measure:
        metrics |= printed(target / folder.STDOUT, measure["printed"], measure["measure"])
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


def printed(log: Path, name: str, metric: str) -> dict[str, float]:
    """The last value that a log gives `name`, as `metric`.

    In Lightning's table of results, or on a line of its own: `NAME: 1.5`, with what a logger puts
    before it, or as a tensor.
    """
    row = re.compile(
        rf"^(?:[\s│|]*{re.escape(name)}[\s│|]+|(?:\[.*\] - )?{re.escape(name)}: (?:tensor\()?)"
        r"([-+.\deE]+|nan|inf)(?:[\s│|]*$|[,)].*$)"
    )
    with TextIOWrapper(open_plain(log), encoding="utf-8", errors="replace") as lines:
        found = [match[1] for line in lines if (match := row.match(line))]
    with suppress(IndexError, ValueError):
        return {metric: float(found[-1])}
    return {}


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

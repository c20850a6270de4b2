"""What a report shows of each run, gathered from its files and its audit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness import __version__, evaluation, folder, papers
from harness.audit.core import MOST_TEACHERS
from harness.audit.teachers import find
from harness.audit.verdicts import Audit, Claim, Verdict
from harness.complete import METRICS, metric_rows
from harness.difference import facts
from harness.errors import HarnessError
from harness.identity import each
from harness.papers import Comparison, Source
from harness.project import Project
from harness.published import of_run
from harness.recipes import load
from harness.report.curves import Curve, curve
from harness.schemas import read_record

_DEEPEST = 20  # levels of a record; ours have seven
TOLD = (
    ("final loss", "loss"),
    ("validation perplexity", "validation_perplexity"),
    ("unigram perplexity", "unigram_perplexity"),
)


@dataclass(frozen=True)
class Deviation:
    """A declared difference from the published override list, with what today's recipes say."""

    name: str
    overrides: tuple[str, ...]
    reason: str
    evidence: str


@dataclass(frozen=True)
class Node:
    """A part of a run's provenance: what it is, its name, and the digest it is known by."""

    kind: str
    name: str
    digest: str


@dataclass(frozen=True)
class RunPage:
    """One run as it is shown. Parts whose records are not valid are empty."""

    anchor: str
    name: str
    exit_code: int
    claims: tuple[Claim, ...]
    recipe: Mapping[str, Any]
    title: str
    summary: tuple[tuple[str, str], ...]
    identity: Mapping[str, Any]
    curves: tuple[Curve, ...]
    undrawn: str  # why there are no curves, where that is not for want of metrics
    inputs: tuple[Node, ...]
    teachers: tuple[Node, ...]
    launch: Node | None
    results: tuple[Node, ...]
    figures: tuple[tuple[Comparison, ...], ...]
    environment: tuple[tuple[str, str], ...]
    changed: tuple[tuple[str, str], ...]
    deviations: tuple[Deviation, ...]

    @property
    def open_claims(self) -> tuple[Claim, ...]:
        """The claims that do not hold."""
        return tuple(c for c in self.claims if c.verdict is not Verdict.HOLDS)

    @property
    def held(self) -> tuple[Claim, ...]:
        """The claims that hold."""
        return tuple(c for c in self.claims if c.verdict is Verdict.HOLDS)


@dataclass(frozen=True)
class Page:
    """A report: its runs, the sources of published figures, when and by what it was made."""

    runs: tuple[RunPage, ...]
    sources: Mapping[str, Source]
    made: str
    harness: str


def gather(project: Project, audits: Iterable[Audit]) -> Page:
    """All that a report shows of audited runs."""
    runs = tuple(_run(project, audit, f"run-{n}") for n, audit in enumerate(audits, 1))
    return Page(
        runs=runs,
        sources=papers.load(project.source).sources,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        harness=__version__,
    )


def _record(run: Path, name: str) -> dict[str, Any]:
    """A record of the run; empty where it is not valid, which the audit tells."""
    try:
        if name == "completed":
            return folder.completed(run)
        record = read_record(run / f"{name}.json", name)
    except (HarnessError, OSError, ValueError, RecursionError):
        return {}
    return record if _shallow(record, _DEEPEST) else {}


def _shallow(value: object, left: int) -> bool:
    """Whether a JSON value is nested at most so deep."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left > 0 and all(_shallow(item, left - 1) for item in inner)


def _run(project: Project, audit: Audit, anchor: str) -> RunPage:
    run = audit.run
    identity, completed, provenance = (
        _record(run, name) for name in ("identity", "completed", "provenance")
    )
    recipe = identity.get("recipe", {})
    curves, undrawn = _curves(run)
    return RunPage(
        anchor=anchor,
        name=run.name,
        exit_code=audit.exit_code,
        claims=audit.claims,
        recipe=recipe,
        title=f"{recipe['model']} on {recipe['dataset']}" if recipe else "no valid launch",
        summary=tuple(_summary(completed)),
        identity=identity,
        curves=curves,
        undrawn=undrawn,
        inputs=tuple(_inputs(identity)) if identity else (),
        teachers=tuple(_teachers(project, run, identity, provenance)),
        launch=_launch(recipe, completed),
        results=tuple(_results(project, run, completed)),
        figures=_grouped(of_run(project, run)),
        environment=tuple(_environment(run, identity, provenance)),
        changed=tuple(_changed(recipe)),
        deviations=tuple(_deviations(project, recipe)),
    )


def _summary(completed: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if not completed:
        return
    yield "completed", completed["completed"]
    yield "step", str(completed["checkpoint"]["step"])
    for title, name in TOLD:
        if name in completed["metrics"]:
            yield title, f"{completed['metrics'][name]:.4g}"


def _curves(run: Path) -> tuple[tuple[Curve, ...], str]:
    """What is drawn, or why nothing is. The file is read once a curve: it is never held whole."""
    path = run / folder.OUTPUT / METRICS
    try:
        found = (
            curve("training loss", metric_rows(path), "loss"),
            curve(
                "validation perplexity",
                metric_rows(path),
                "validation_perplexity",
                "unigram_perplexity",
            ),
        )
    except (HarnessError, OSError) as error:
        return (), f"not drawn: {error}"
    return tuple(one for one in found if one is not None), ""


def _inputs(identity: Mapping[str, Any]) -> Iterable[Node]:
    source, environment = identity["source"], identity["environment"]
    commit = f" at {source['commit'][:12]}" if source["commit"] else ""
    near = f", not the pinned {source['pinned'][:12]}" if "pinned" in source else ""
    yield Node("source", f"{source['name']}{commit}{near}", source["tree"])
    yield Node("adapters", "adapters", identity["adapters"])
    yield Node("environment", environment["name"], environment["lock_sha256"])
    base = environment["base"]
    yield Node("base", f"{base['kind']} base", base["path"])
    yield Node("data", identity["data"]["key"], identity["data"]["manifest_sha256"])
    tokenizer = identity["tokenizer"]
    yield Node("tokenizer", tokenizer["name"], tokenizer["sha256"])
    yield Node("configuration", folder.CONFIG, identity["config_sha256"])


def _teachers(
    project: Project, run: Path, identity: Mapping[str, Any], provenance: Mapping[str, Any]
) -> Iterable[Node]:
    """The teachers, their teachers, and so on, as far as their runs are here."""
    seen, todo = {run}, [(run, identity, provenance)]
    while todo and len(seen) <= MOST_TEACHERS:
        here, known, facts = todo.pop()
        if not (known and facts):
            continue
        paths = find(project, here, known, facts)
        for recorded, path in zip(each(known["teacher"]), paths, strict=True):
            origin = path.parent if path else None
            above = _record(origin, "identity") if origin else {}
            name = origin.name if origin and above else "checkpoint"
            yield Node("teacher", name, recorded["sha256"])
            if origin is not None and origin not in seen:
                seen.add(origin)
                todo.append((origin, above, _record(origin, "provenance")))


def _launch(recipe: Mapping[str, Any], completed: Mapping[str, Any]) -> Node | None:
    if not recipe or not completed:
        return None
    name = f"{recipe['model']}, {recipe['dataset']}, {recipe['profile']}"
    return Node("launch", name, completed["identity_sha256"])


def _results(project: Project, run: Path, completed: Mapping[str, Any]) -> Iterable[Node]:
    if not completed:
        return
    checkpoint = completed["checkpoint"]
    yield Node("checkpoint", f"step {checkpoint['step']}", checkpoint["sha256"])
    for name, group in checkpoint["tensors"].items():
        yield Node("tensors", f"{name}, {group['tensors']} tensors", group["digest"])
    for identity, record in evaluation.of_run(project, run):
        name = f"{identity['evaluation']['name']}: {record['value']:.4g}"
        yield Node("evaluation", name, record["identity_sha256"])


def _grouped(comparisons: Iterable[Comparison]) -> tuple[tuple[Comparison, ...], ...]:
    """Figures in groups that stand alike for one reason; those that can be compared are alone."""
    groups: dict[object, list[Comparison]] = {}
    for one in comparisons:
        alone = one.figure if not one.why else None
        key = (one.figure.metric, one.standing, one.why, alone and (alone.source, alone.value))
        groups.setdefault(key, []).append(one)
    return tuple(map(tuple, groups.values()))


def _environment(
    run: Path, identity: Mapping[str, Any], provenance: Mapping[str, Any]
) -> Iterable[tuple[str, str]]:
    if not identity or not provenance:
        return
    told = facts(run)
    base: Any = told["base"]
    host: Any = told["host"]
    yield "base", f"{base['kind']}, {base['path']}"
    yield "environment", identity["environment"]["name"]
    yield "network", identity["network"]
    yield "processor", f"{host['processor'] or host['machine']}, {host['cores']} cores"
    yield "GPUs", ", ".join(host["gpus"]) or "none"
    yield "driver", host["driver"] or "none"
    yield "kernel", host["kernel"]
    tools: Any = told["tools"]
    yield "tools", ", ".join(f"{name} {version or 'unknown'}" for name, version in tools.items())
    for number, attempt in enumerate(provenance["attempts"], 1):
        ended = attempt["ended"] or "never ended"
        at = attempt.get("resumed_at")
        went_on = "" if at is None else f", went on at step {at}"
        what = f"{attempt['started']} to {ended}, status {attempt['status']}{went_on}"
        yield f"attempt {number}", what


def _changed(recipe: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Published overrides beside those launched, where a profile changes them."""
    pairs = zip(recipe.get("published", ()), recipe.get("launched", ()), strict=False)
    return ((published, launched) for published, launched in pairs if published != launched)


def _deviations(project: Project, recipe: Mapping[str, Any]) -> Iterable[Deviation]:
    reasons = {entry["name"]: entry for entry in load(project.source).tables["deviations"]}
    for entry in recipe.get("deviations", ()):
        known = reasons.get(entry["name"], {})
        yield Deviation(
            entry["name"],
            tuple(entry["overrides"]),
            known.get("reason", "no longer among the recipes' deviations"),
            known.get("evidence", ""),
        )
    if recipe.get("profile_additions"):
        yield Deviation(
            f"profile {recipe['profile']}", tuple(recipe["profile_additions"]), "of the profile", ""
        )

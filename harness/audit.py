"""Audits: each claim a run folder makes, checked from its files; never from what it says alone.

A claim holds, differs (what was expected, what was found), or cannot be checked here (why). A
run of which something could not be checked is not called good.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from harness import folder, nix, places, sources
from harness.canonical import digest
from harness.checkpoint import read
from harness.data import ready
from harness.errors import HarnessError, Refused
from harness.files import read_json, sha256_file
from harness.identity import differences, tree_digest
from harness.plan import Choices, Plan, plan
from harness.project import Project
from harness.schemas import read_record


class Verdict(Enum):
    """What a check found of a claim."""

    HOLDS = "holds"
    DIFFERS = "differs"
    UNCHECKED = "cannot be checked here"


@dataclass(frozen=True)
class Claim:
    """One claim of a run and what was found of it."""

    name: str
    verdict: Verdict
    expected: str = ""
    found: str = ""
    why: str = ""


@dataclass(frozen=True)
class Audit:
    """All claims of one run."""

    run: Path
    claims: tuple[Claim, ...]

    @property
    def exit_code(self) -> int:
        """0: all hold. 1: something differs. 2: nothing differs, but not all could be checked."""
        verdicts = {claim.verdict for claim in self.claims}
        if Verdict.DIFFERS in verdicts:
            return 1
        return 2 if Verdict.UNCHECKED in verdicts else 0

    def record(self) -> dict[str, object]:
        """The audit as JSON."""
        return {
            "schema_version": 1,
            "run": self.run.name,
            "exit_code": self.exit_code,
            "claims": [
                {
                    "name": claim.name,
                    "verdict": claim.verdict.value,
                    "expected": claim.expected,
                    "found": claim.found,
                    "why": claim.why,
                }
                for claim in self.claims
            ],
        }


@dataclass(frozen=True)
class Recorded:
    """A run folder's own records, each already checked against its schema."""

    project: Project
    run: Path
    identity: dict[str, Any]
    completed: dict[str, Any]
    provenance: dict[str, Any]


Check = Callable[[Recorded], Iterator[Claim]]


def audit(project: Project, run: Path) -> Audit:
    """Check every claim of the completed run at `run`.

    Raises Refused where `run` holds no run at all.
    """
    if not (run / folder.IDENTITY).exists() and not (run / folder.COMPLETED).exists():
        raise Refused(f"{run}: holds no run (neither {folder.IDENTITY} nor {folder.COMPLETED})")
    try:
        recorded = Recorded(
            project,
            run,
            identity=read_record(run / folder.IDENTITY, "identity"),
            completed=folder.completed(run),
            provenance=read_record(run / folder.PROVENANCE, "provenance"),
        )
    except Refused as error:
        return Audit(run, (Claim("records", Verdict.DIFFERS, why=str(error)),))
    claims = [Claim("records", Verdict.HOLDS)]
    for check in CHECKS:
        claims += _guarded(check, recorded)
    return Audit(run, tuple(claims))


def _guarded(check: Check, recorded: Recorded) -> list[Claim]:
    """A check's claims; one that cannot read its file tells so as a difference."""
    name = check.__name__.strip("_").replace("_", " ")
    try:
        return list(check(recorded))
    except (HarnessError, OSError) as error:
        return [Claim(name, Verdict.DIFFERS, why=str(error))]


def _equal(name: str, expected: object, found: object) -> Claim:
    if expected == found:
        return Claim(name, Verdict.HOLDS, found=_short(found))
    fields = [field for field in differences(expected, found) if field]
    why = f"differs in {', '.join(fields[:4])}" if fields else ""
    return Claim(name, Verdict.DIFFERS, _short(expected), _short(found), why)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 80 else text[:77] + "..."


def _unchecked(name: str, why: str) -> Claim:
    return Claim(name, Verdict.UNCHECKED, why=why)


def _identity(recorded: Recorded) -> Iterator[Claim]:
    sha256 = digest(recorded.identity)
    yield _equal("identity", recorded.completed["identity_sha256"], sha256)
    yield _equal("identity of the provenance", recorded.provenance["identity_sha256"], sha256)


def _files(recorded: Recorded) -> Iterator[Claim]:
    faults = folder.altered(recorded.run, recorded.completed)
    verdict = Verdict.DIFFERS if faults else Verdict.HOLDS
    yield Claim("files", verdict, why="; ".join(faults[:8]))


def _records(recorded: Recorded) -> Iterator[Claim]:
    run, identity = recorded.run, recorded.identity
    yield _equal("recipe", identity["recipe"], read_json(run / folder.RECIPE))
    yield _equal("argument list", identity["argv"], read_json(run / folder.ARGV))
    yield _equal("configuration", identity["config_sha256"], sha256_file(run / folder.CONFIG))
    model = recorded.completed["checkpoint"]["sha256"]
    yield _equal("checkpoint file", model, sha256_file(run / folder.MODEL))


def _ending(recorded: Recorded) -> Iterator[Claim]:
    last = recorded.provenance["attempts"][-1]
    yield _equal("exit status", 0, last["status"])
    times = [last["started"], last["ended"] or "", recorded.completed["completed"]]
    yield _equal("order of times", sorted(times), times)


def _todays_recipe(recorded: Recorded) -> Iterator[Claim]:
    today = replan(recorded)
    identity = recorded.identity
    yield _equal("recipe of today", identity["recipe"], today.recipe.record())
    yield _equal("argument list of today", identity["argv"], list(today.argv))


def _code(recorded: Recorded) -> Iterator[Claim]:
    source, project = recorded.identity["source"], recorded.project
    tree = sources.tree(project, source["name"])
    yield _equal("source commit", source["commit"], sources.commit(project, source["name"]))
    if tree.is_dir():
        yield _equal("source tree", source["tree"], tree_digest(tree))
    else:
        yield _unchecked("source tree", f"{tree} is not on this machine")
    adapters = tree_digest(project.source / "adapters")
    yield _equal("adapters", recorded.identity["adapters"], adapters)


def _environment(recorded: Recorded) -> Iterator[Claim]:
    expected = recorded.identity["environment"]
    lock = nix.lock_sha256(recorded.project, expected["name"])
    yield _equal("environment lock", expected["lock_sha256"], lock)
    here = nix.realised(recorded.project, expected["name"])
    if here is None:
        yield _unchecked("environment", f"{expected['name']} is not built on this machine")
        return
    base = {"kind": here.base.kind, "path": here.base.path.name}
    if base != expected["base"]:
        yield _unchecked("environment", f"this machine's base is {base['path']}")
        return
    faults = [path for path in (here.path, here.base.path) if not nix.verify_path(path)]
    verdict = Verdict.DIFFERS if faults else Verdict.HOLDS
    yield Claim("environment", verdict, why=", ".join(map(str, faults)))


def _data(recorded: Recorded) -> Iterator[Claim]:
    identity, project = recorded.identity, recorded.project
    today = replan(recorded).recipe
    lacking = ready.missing(project, today.data, today.data_layout)
    if lacking:
        yield _unchecked("data", lacking[0])
        yield _unchecked("tokenizer", lacking[0])
        return
    data = ready.inputs(project, today.data, today.data_layout)
    yield _equal("data", identity["data"]["manifest_sha256"], data.manifest_sha256)
    yield _equal("tokenizer", identity["tokenizer"]["sha256"], data.tokenizer_sha256)


def _teacher(recorded: Recorded) -> Iterator[Claim]:
    teacher = recorded.identity["teacher"]
    if teacher is None:
        return
    path = Path(recorded.provenance["paths"]["mounts"].get(places.TEACHER_FILE, ""))
    if not path.is_file():
        yield _unchecked("teacher", f"{path or 'its file'} is not on this machine")
    else:
        yield _equal("teacher", teacher["sha256"], sha256_file(path))


def _tensors(recorded: Recorded) -> Iterator[Claim]:
    environment = nix.realised(recorded.project, recorded.identity["environment"]["name"])
    if environment is None:
        yield _unchecked("tensors", "no environment on this machine to read them in")
        return
    checkpoint = recorded.completed["checkpoint"]
    report = read(recorded.project, environment, recorded.run / folder.MODEL)
    yield _equal("step", checkpoint["step"], report.step)
    for name, group in checkpoint["tensors"].items():
        found = report.groups.get(name)
        yield _equal(f"tensors: {name}", group["digest"], found.digest if found else "none")
    infinite = [tensor.name for tensor in report.tensors if not tensor.finite]
    verdict = Verdict.DIFFERS if infinite else Verdict.HOLDS
    yield Claim("finite", verdict, why=", ".join(infinite[:4]))


CHECKS: tuple[Check, ...] = (
    _identity,
    _files,
    _records,
    _ending,
    _todays_recipe,
    _code,
    _environment,
    _data,
    _teacher,
    _tensors,
)


def replan(recorded: Recorded) -> Plan:
    """The plan that today's recipes give for the recorded choices."""
    return plan(recorded.project, recorded_choices(recorded.identity, recorded.provenance))


def recorded_choices(identity: dict[str, Any], provenance: dict[str, Any]) -> Choices:
    """The choices a recorded launch was made with."""
    recipe = identity["recipe"]
    teacher = provenance["paths"]["mounts"].get(places.TEACHER_FILE)
    return Choices(
        model=recipe["model"],
        dataset=recipe["dataset"],
        profile=recipe["profile"],
        devices=identity["devices"],
        nodes=identity["nodes"],
        per_device_batch=identity["per_device_batch"],
        seed=identity["seed"],
        resume=identity["resume"],
        teacher=Path(teacher) if teacher else None,
        student_init=identity["student_init"],
    )

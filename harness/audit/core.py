"""Audits: each claim a run folder makes, checked from its files; never from what it says alone.

A claim holds, differs (what was expected, what was found), or cannot be checked here (why). A
run of which something could not be checked is not called good.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import folder
from harness.audit import own, pins, teachers, tensors
from harness.audit.machine import Machine
from harness.audit.recorded import Recorded, read
from harness.audit.verdicts import Audit, Claim, Verdict, differs, equal, unchecked
from harness.canonical import digest
from harness.errors import HarnessError, Refused
from harness.identity import each
from harness.schemas import read_record

Check = Callable[[Recorded], Iterator[Claim]]

_I, _F, _C = folder.IDENTITY, folder.PROVENANCE, folder.COMPLETED
# Each check with the records it needs; where one of them is not valid it cannot be done.
CHECKS: tuple[tuple[str, Check, tuple[str, ...]], ...] = (
    ("files", own.files, (_C,)),
    ("dates of files", own.dates, ()),
    ("logs", own.logs, ()),
    ("identity", own.identity, (_I, _C)),
    ("facts", own.facts, (_I, _F)),
    ("recipe, argument list, configuration", own.copies, (_I,)),
    ("argument list rendered", own.rendering, (_I,)),
    ("batch", own.batch, (_I,)),
    ("network", own.network, (_I,)),
    ("exit status", own.ending, (_F,)),
    ("order of times", own.order, (_F, _C)),
    ("resumed", own.resumed, (_F, _C)),
    ("result", own.result, (_I, _C)),
    ("metrics", own.metrics, (_C,)),
    ("harness", pins.tool, (_I,)),
    ("recipe of today", pins.recipe, (_I,)),
    ("source", pins.code, (_I,)),
    ("environment", pins.environment, (_I,)),
    ("data", pins.data, (_I,)),
    ("recorded result", pins.recorded, (_I, _C)),
    ("tensors", tensors.tensors, (_I, _C)),
    ("adapted teacher", teachers.adapted, (_I, _F)),
)


def audit(machine: Machine, run: Path) -> Audit:
    """Check every claim of the run at `run`, and of the runs its teachers came from.

    Raises Refused where `run` holds no run at all.
    """
    return _audit(machine, run, Chain())


def holds_run(run: Path) -> bool:
    """Whether a folder has any record of a run."""
    return any((run / name).exists() or (run / name).is_symlink() for name in RECORDS)


RECORDS = (
    folder.IDENTITY,
    folder.COMPLETED,
    folder.PROVENANCE,
    folder.RECIPE,
    folder.ARGV,
    folder.MODEL,
)


MOST_TEACHERS = 16  # runs of teachers, theirs too, that one audit follows; an honest chain has few


@dataclass
class Chain:
    """The runs that one audit looks into: those `above` the present one, and all it has `seen`."""

    above: tuple[Path, ...] = ()
    seen: set[Path] = field(default_factory=set)

    def below(self, run: Path) -> "Chain":
        """The chain as the teachers of `run` have it; what was seen is shared."""
        return Chain((*self.above, run), self.seen)


def _audit(machine: Machine, run: Path, chain: Chain) -> Audit:
    if not holds_run(run):
        raise Refused(f"{run}: holds no run (no {folder.IDENTITY}, no {folder.COMPLETED})")
    if run.is_symlink():
        why = "is a symbolic link; audit the folder it leads to"
        return Audit(run, (differs(f"run {run.name}", why),))
    recorded, claims = read(machine, run)
    for name, check, needed in CHECKS:
        claims += _guarded(name, check, needed, recorded)
    if _I in recorded.records and _F in recorded.records:
        claims += _guarded("teacher", lambda run: taught(run, chain.below(run.run)), (), recorded)
    return Audit(run, tuple(claims))


def _guarded(name: str, check: Check, needed: tuple[str, ...], run: Recorded) -> list[Claim]:
    """A check's claims; what its files make impossible to check is a difference."""
    invalid = [record for record in needed if record not in run.records]
    if invalid:
        return [unchecked(name, f"needs {', '.join(invalid)}")]
    claims: list[Claim] = []
    try:
        claims += check(run)
    except (HarnessError, OSError) as error:
        claims.append(differs(name, str(error).removeprefix(f"{run.run}/")))
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
        # Records of the right form that make no sense together; nobody here wrote such ones.
        claims.append(differs(name, f"makes no sense: {type(error).__name__}: {error}"))
    return claims


def taught(run: Recorded, chain: Chain) -> Iterator[Claim]:
    """The claims of each teacher."""
    recorded = each(run.identity["teacher"])
    paths = teachers.find(run.project, run.run, run.identity, run.provenance)
    for one, path in zip(recorded, paths, strict=True):
        yield from teacher(run, one, path, chain)


def teacher(
    run: Recorded, recorded: dict[str, Any], path: Path | None, chain: Chain
) -> Iterator[Claim]:
    """The teacher's bytes are those recorded; where they came from a run, that run's claims.

    Claims of a run that taught several are told once.
    """
    name = f"teacher {recorded['family']}" if "family" in recorded else "teacher"
    if path is None:
        yield unchecked(name, "its checkpoint is not on this machine")
        return
    bytes_ = teachers.same(name, recorded["sha256"], path)
    yield bytes_
    if bytes_.verdict is not Verdict.HOLDS:
        return  # whatever it is, it taught nobody here
    origin = path.parent
    if path.name != folder.MODEL or not holds_run(origin):
        yield unchecked(f"{name}'s run", f"{path} lies in no run folder")
        return
    if origin in chain.above:
        yield differs(f"{name}'s run", f"{origin.name} is, at the end, its own teacher")
        return
    if recorded["identity"] is not None:
        found = digest(read_record(origin / folder.IDENTITY, "identity"))
        yield equal(f"{name}'s identity", recorded["identity"], found, origin.name)
    if origin in chain.seen:
        return
    if len(chain.seen) == MOST_TEACHERS:
        yield unchecked(f"{name}'s run", f"over {MOST_TEACHERS} runs of teachers are not followed")
        return
    chain.seen.add(origin)
    for claim in _audit(run.machine, origin, chain).claims:
        yield claim.below(f"teacher {origin.name}: ")

"""A completed run's launch, turned to another use of its checkpoint: measured, or sampled from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import folder, places
from harness.audit.pins import recorded_choices
from harness.audit.teachers import find
from harness.errors import Refused
from harness.identity import differences
from harness.plan import Plan, plan
from harness.project import Project
from harness.sandbox import Mount
from harness.schemas import read_record

CHECKPOINT = f"{places.ROOT}/checkpoint/model.ckpt"


def whole(run: Path) -> dict[str, Any]:
    """The completion record of a run whose files are what it lists; Refused for another."""
    completed = folder.completed(run)
    faults = folder.altered(run, completed)
    if faults:
        raise Refused(f"{run}: {faults[0]}; 'harness audit' tells all of it")
    return completed


def trained(project: Project, run: Path) -> Plan:
    """The run's own plan, from today's recipes; Refused where they give another."""
    identity: Any = read_record(run / folder.IDENTITY, "identity")
    facts = read_record(run / folder.PROVENANCE, "provenance")
    teachers = [path for path in find(project, run, identity, facts) if path is not None]
    planned = plan(project, recorded_choices(identity, tuple(teachers)))
    today = {"recipe": planned.recipe.record(), "argv": list(planned.argv)}
    fields = differences({name: identity[name] for name in today}, today)
    if fields:
        raise Refused(
            f"{run}: today's recipes give another launch (differs in {', '.join(fields[:4])}); "
            "use the version of this harness that made it"
        )
    return planned


def turned(
    plan: Plan, run: Path, target: Path, changes: Mapping[str, str], added: Sequence[str] = ()
) -> Plan:
    """A training's plan with other overrides, its run's checkpoint shown, its output in `target`.

    `changes` replace the overrides they name, or come after all others; so do `added`, where
    `{checkpoint}` stands for the checkpoint's path.
    """
    kept, met = [], set()
    for override in plan.overrides:
        key, _, _ = override.partition("=")
        plain = key.removeprefix("+")
        met.add(plain)
        kept.append(f"{key}={changes[plain]}" if plain in changes else override)
    kept += [f"{key}={value}" for key, value in changes.items() if key not in met]
    kept += [override.replace("{checkpoint}", CHECKPOINT) for override in added]
    mounts = [mount for mount in plan.mounts if mount.target != places.OUTPUT]
    return replace(
        plan,
        overrides=tuple(kept),
        argv=(*plan.argv[:2], *kept),
        mounts=(
            *mounts,
            Mount(run / folder.MODEL, CHECKPOINT),
            Mount(target / folder.OUTPUT, places.OUTPUT, writable=True),
        ),
        run=target,
    )

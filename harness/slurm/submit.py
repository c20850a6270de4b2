"""Launches become jobs: each student after its teachers, equal ones as one array, by submitit."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.canonical import digest
from harness.errors import HarnessError
from harness.matrix import Entry
from harness.nix import realise
from harness.project import Project
from harness.provenance import now
from harness.slurm import commands, files
from harness.slurm.files import Submission
from harness.slurm.job import Job
from harness.slurm.resources import TIMEOUTS, Resources

# What a node's harness needs of the submitting one's environment.
KEPT = ("HOME", "XDG_STATE_HOME", "HARNESS_BASE", "HARNESS_HOST_PYTHON")


@dataclass(frozen=True)
class Submitted:
    """One launch of a submission: its job, or why there is none."""

    entry: Entry
    job: str | None
    state: str  # submitted, waiting, complete


def submit(
    project: Project,
    entries: Sequence[Entry],
    identities: Mapping[Path, str],
    resources: Resources,
    interface: str | None = None,
) -> list[Submitted]:
    """Put every launch that is neither complete nor waiting already into the queue.

    `identities` are those known now, by run folder. Raises HarnessError with Slurm's reason where
    it takes a job not; what was submitted before that stays.
    """
    commands.available()
    files.folder(project).mkdir(parents=True, exist_ok=True)
    jobs = _waiting(project)
    done = {entry.plan.run: "complete" for entry in entries if entry.complete}
    done |= {e.plan.run: "waiting" for e in entries if e.plan.run in jobs and not e.complete}
    left = [entry for entry in entries if entry.plan.run not in done]
    python = _python(project)
    while left:
        later = {entry.plan.run for entry in left}
        wave = [entry for entry in left if not later & set(entry.after)]
        for group, after in _groups(wave, jobs, resources):
            numbers = _put(project, group, after, identities, resources, interface, python)
            jobs |= dict(zip((entry.plan.run for entry in group), numbers, strict=True))
        left = [entry for entry in left if entry.plan.run not in jobs]
    return [
        Submitted(entry, jobs.get(entry.plan.run), done.get(entry.plan.run, "submitted"))
        for entry in entries
    ]


def _waiting(project: Project) -> dict[Path, str]:
    """The job of each run that waits or runs now."""
    found = {one.run: one.job for one in files.unfinished(project)}
    alive = commands.alive(list(found.values()))
    return {run: job for run, job in found.items() if job in alive}


def _groups(
    wave: Iterable[Entry], jobs: Mapping[Path, str], resources: Resources
) -> list[tuple[list[Entry], tuple[str, ...]]]:
    """Launches that ask for the same and wait for the same, each an array."""
    groups: dict[str, tuple[list[Entry], tuple[str, ...]]] = {}
    for entry in wave:
        after = tuple(jobs[run] for run in entry.after if run in jobs)
        key = digest([resources.parameters(entry.plan, "", None), list(after)])
        groups.setdefault(key, ([], after))[0].append(entry)
    return list(groups.values())


def _put(
    project: Project,
    group: list[Entry],
    after: tuple[str, ...],
    identities: Mapping[Path, str],
    resources: Resources,
    interface: str | None,
    python: str,
) -> list[str]:
    """Submit `group` as one array (or one job); their numbers."""
    import submitit

    # No lines of its own beside the table.
    submitit.core.logger.get_logger().setLevel("ERROR")
    first = group[0].plan
    name = first.run.name if len(group) == 1 else f"{first.recipe.profile}-{len(group)}-launches"
    dependency = f"afterok:{':'.join(after)}" if after else None
    executor = submitit.SlurmExecutor(files.folder(project), TIMEOUTS, python=python)
    executor.update_parameters(**resources.parameters(first, name, dependency))
    calls = [
        Job(project, entry.plan.choices, identities.get(entry.plan.run), interface)
        for entry in group
    ]
    try:
        if len(calls) == 1:
            made = [executor.submit(calls[0])]
        else:
            with executor.batch():
                made = [executor.submit(call) for call in calls]
    except submitit.core.utils.FailedJobError as error:
        raise HarnessError(f"{name}: Slurm refused it: {_reason(error)}") from error
    for entry, job in zip(group, made, strict=True):
        _record(entry, str(job.job_id), after, identities).publish(project)
    return [str(job.job_id) for job in made]


def _record(
    entry: Entry, job: str, after: tuple[str, ...], identities: Mapping[Path, str]
) -> Submission:
    planned = entry.plan
    return Submission(
        job=job,
        run=planned.run,
        identity=identities.get(planned.run),
        model=planned.recipe.model,
        dataset=planned.recipe.dataset,
        seed=planned.choices.seed,
        nodes=planned.nodes,
        gpus_per_node=planned.devices,
        after=after,
        submitted=now(),
    )


def _python(project: Project) -> str:
    """The shell words that run this harness's Python on a node, whatever its own settings are."""
    environment = realise(project, "cli")
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    variables = {
        **kept,
        "HARNESS_SOURCE": str(project.source),
        "PYTHONPATH": str(project.source),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = ["env", *(f"{name}={value}" for name, value in variables.items())]
    return shlex.join([*words, *environment.base.command(environment.path, "-sP")])


def _reason(error: Any) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "error:" in line]
    return lines[-1] if lines else " ".join(str(error).split())[:300]

"""From a plan to a launch that is ready to run: environment, data, configuration, identity."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness import adaptation, adapters, mirrors, places, sources
from harness.compose import compose
from harness.data import ready
from harness.data.ready import DataInputs
from harness.errors import Refused
from harness.identity import Identity, identify
from harness.nix import Environment, lock_sha256, realise
from harness.plan import Plan
from harness.project import Project
from harness.sandbox import Box, Mount

Report = Callable[[str], None]


@dataclass(frozen=True)
class Launch:
    """All that decides a run, checked and digested."""

    project: Project
    plan: Plan
    environment: Environment
    data: DataInputs
    config: bytes
    identity: Identity
    teachers: tuple[adaptation.Ready, ...] = ()

    def box(self) -> Box:
        """The sandbox the trainer runs in."""
        return Box(
            base=self.environment.base.path,
            closure=self.environment.closure,
            mounts=(Mount(self.environment.path, places.ENVIRONMENT), *self.plan.mounts),
            variables=self.plan.variables,
            cwd=places.OUTPUT,
            gpus=self.plan.recipe.fields.get("accelerator", "cuda") == "cuda",
            share_network=self.plan.nodes > 1,
            limits=self.project.limits,
            hidden=sources.hidden(self.plan.mounts, self.plan.recipe.source),
        )


def ready_launch(project: Project, plan: Plan, report: Report) -> Launch:
    """Build the environment, check the data and the teacher, compose, identify; nothing trains.

    Raises Refused where an input is missing or the configuration does not compose.
    """
    recipe = plan.recipe
    lock_sha256(project, recipe.environment)  # refused before anything is asked of the user
    adapters.check(project, recipe.adapters, recipe.environment)
    if any(plan.lacks(entry.name) for entry in plan.inputs if entry.name != "source"):
        raise Refused(f"{recipe.model} on {recipe.dataset}: {'; '.join(plan.missing)}")
    plan = sourced(plan, mirrors.realise(project, recipe.source, plan.choices.mirrors, report))
    report(f"environment {recipe.environment}")
    environment = realise(project, recipe.environment)
    report(f"data {recipe.data}: checking against its manifest")
    data = ready.inputs(project, recipe.data, recipe.data_layout)
    report("composing the configuration in the sandbox")
    config = compose(project, plan, environment)
    teachers = []
    for teacher in plan.teachers:
        report(f"teacher {teacher.file}: checking, and adapting where the recipe says so")
        teachers.append(adaptation.ready(project, recipe, teacher, environment))
    plan = taught(plan, teachers)
    identity = identify(project, plan, environment, data, config, teachers)
    return Launch(project, plan, environment, data, config, identity, tuple(teachers))


def sourced(plan: Plan, source: sources.Source) -> Plan:
    """The plan with a source that is there."""
    others = [mount for mount in plan.mounts if mount.target != places.SOURCE]
    return replace(plan, source=source, mounts=(Mount(source.path, places.SOURCE), *others))


def taught(plan: Plan, teachers: Sequence[adaptation.Ready]) -> Plan:
    """The plan with the files that the trainer is to read where it looks for its teachers."""
    found = {teacher.target: teacher.file for teacher in teachers}
    others = [mount for mount in plan.mounts if mount.target not in found]
    return replace(plan, mounts=(*others, *(Mount(path, at) for at, path in found.items())))

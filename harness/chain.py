"""A student with its teachers: the launches that come before it, made with the same choices."""

from dataclasses import replace

from harness.errors import Refused
from harness.plan import Choices, Plan, plan
from harness.project import Project
from harness.recipes import load


def chain(project: Project, choices: Choices) -> tuple[tuple[Plan, ...], Choices]:
    """The plans of the teachers' launches, and the student's choices with those runs as teachers.

    A teacher has the student's dataset, profile, seed, devices and nodes; all else is its own
    recipe's. Raises Refused where the student learns from none, or one was given already.
    """
    catalogue = load(project.source)
    models = catalogue.teachers(catalogue.recipe(choices.model, choices.dataset, choices.profile))
    if not models:
        raise Refused(f"--with-teacher: {choices.model} learns from no teacher; leave it out")
    if choices.teachers:
        raise Refused(f"--with-teacher: --teacher {choices.teachers[0]} is one already; give one")
    first = Choices(
        model=choices.model,
        dataset=choices.dataset,
        profile=choices.profile,
        devices=choices.devices,
        nodes=choices.nodes,
        seed=choices.seed,
        resume=choices.resume,
        mirrors=choices.mirrors,
    )
    planned = tuple(plan(project, replace(first, model=model), catalogue) for model in models)
    return planned, replace(choices, teachers=tuple(one.run for one in planned))

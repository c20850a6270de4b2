"""A student with its teacher: the launches that come before it, made with the same choices."""

from dataclasses import replace

from harness.errors import Refused
from harness.plan import Choices, Plan, plan
from harness.project import Project
from harness.recipes import load


def chain(project: Project, choices: Choices) -> tuple[Plan, Choices]:
    """The plan of the teacher's launch, and the student's choices with that run as its teacher.

    The teacher has the student's dataset, profile, seed, devices and nodes; all else is its own
    recipe's. Raises Refused where the student learns from none, or one was given already.
    """
    catalogue = load(project.source)
    model = catalogue.teacher(catalogue.recipe(choices.model, choices.dataset, choices.profile))
    if model is None:
        raise Refused(f"--with-teacher: {choices.model} learns from no teacher; leave it out")
    if choices.teacher is not None:
        raise Refused(f"--with-teacher: --teacher {choices.teacher} is one already; give one")
    first = Choices(
        model=model,
        dataset=choices.dataset,
        profile=choices.profile,
        devices=choices.devices,
        nodes=choices.nodes,
        seed=choices.seed,
        resume=choices.resume,
    )
    planned = plan(project, first, catalogue)
    return planned, replace(choices, teacher=planned.run)

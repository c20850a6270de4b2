"""`harness plan`: a launch, fully decided, without side effects."""

import click

from harness.cli.choices import one_or_many
from harness.cli.saying import say, say_json
from harness.errors import Refused
from harness.plan import Choices, Plan, plan
from harness.project import Project

NETWORKS = {
    False: "none",
    True: "the hosts' own, shared for the nodes to meet: weaker isolation, part of the identity",
}


@click.command()
@one_or_many
@click.option("--all", "everything", is_flag=True, help="Every recipe, teachers before students.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole plan as JSON.")
@click.pass_obj
def command(project: Project, choices: Choices, everything: bool, as_json: bool) -> None:
    """Show what `train MODEL DATASET` would run, on what, with which inputs."""
    if everything == bool(choices.model):
        raise Refused("plan: give MODEL and DATASET, or --all")
    if not everything:
        show_plan(plan(project, choices), as_json)
        return
    from harness.cli.table import show_entries
    from harness.matrix import entries, every

    if choices.name or choices.teachers:
        raise Refused("--all: --name and --teacher are of one launch; leave them out")
    show_entries(entries(project, every(project, choices)), as_json)


def show_plan(planned: Plan, as_json: bool) -> None:
    """Print a plan, for people or as JSON."""
    if as_json:
        say_json(planned.record())
        return
    recipe = planned.recipe
    say(f"{recipe.title} on {recipe.dataset}, profile {recipe.profile}")
    rows = {
        "source": f"{planned.source.label} ({recipe.entrypoint})",
        "environment": recipe.environment,
        "steps": f"{recipe.fields['max_steps']}",
        "batch": (
            f"{planned.effective_batch} = {planned.nodes} nodes x {planned.devices} devices x "
            f"{planned.per_device_batch} x {planned.accumulation} accumulated"
        ),
        "network": NETWORKS[planned.nodes > 1],
        "evidence": str(recipe.fields["evidence"]),
        "run folder": str(planned.run),
    }
    for name, value in rows.items():
        say(f"  {name:12} {value}")
    say("command, in the sandbox")
    for word in planned.argv:
        say(f"  {word}")
    say("mounts")
    for mount in planned.mounts:
        say(f"  {mount.target:26} {'rw' if mount.writable else 'ro'}  {mount.source}")
    say("inputs")
    for entry in planned.inputs:
        for line in entry.missing or ("ready",):
            say(f"  {entry.name:12} {line}")

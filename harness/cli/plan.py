"""`harness plan`: a launch, fully decided, without side effects."""

import json

import click

from harness.cli.choices import launch_choices
from harness.plan import Choices, Plan, plan
from harness.project import Project


@click.command()
@launch_choices
@click.option("--json", "as_json", is_flag=True, help="Print the whole plan as JSON.")
@click.pass_obj
def command(project: Project, choices: Choices, as_json: bool) -> None:
    """Show what `train MODEL DATASET` would run, on what, with which inputs."""
    show_plan(plan(project, choices), as_json)


def show_plan(planned: Plan, as_json: bool) -> None:
    """Print a plan, for people or as JSON."""
    if as_json:
        click.echo(json.dumps(planned.record(), indent=1))
        return
    recipe = planned.recipe
    click.echo(f"{recipe.title} on {recipe.dataset}, profile {recipe.profile}")
    rows = {
        "source": f"{planned.source.label} ({recipe.entrypoint})",
        "environment": recipe.environment,
        "steps": f"{recipe.fields['max_steps']}",
        "batch": (
            f"{planned.effective_batch} = {planned.nodes} nodes x {planned.devices} devices x "
            f"{planned.per_device_batch} x {planned.accumulation} accumulated"
        ),
        "evidence": str(recipe.fields["evidence"]),
        "run folder": str(planned.run),
    }
    for name, value in rows.items():
        click.echo(f"  {name:12} {value}")
    click.echo("command, in the sandbox")
    for word in planned.argv:
        click.echo(f"  {word}")
    click.echo("mounts")
    for mount in planned.mounts:
        click.echo(f"  {mount.target:26} {'rw' if mount.writable else 'ro'}  {mount.source}")
    click.echo("inputs")
    for entry in planned.inputs:
        for line in entry.missing or ("ready",):
            click.echo(f"  {entry.name:12} {line}")

"""`harness list`: the recipes, profiles and environments there are."""

import click

from harness.cli.saying import say
from harness.project import Project
from harness.recipes import load


@click.command()
@click.option(
    "--environments",
    is_flag=True,
    help="List the locked environments, and how they deviate from upstreams' lists.",
)
@click.pass_obj
def command(project: Project, environments: bool) -> None:
    """List recipes and profiles."""
    if environments:
        _environments(project)
        return
    catalogue = load(project.source)
    say(f"{'model':12} {'dataset':8} {'source':7} {'steps':>8} {'batch':>5} {'lr':>7}  teacher")
    for model, dataset in catalogue.pairs():
        recipe = catalogue.recipe(model, dataset)
        fields = recipe.fields
        say(
            f"{model:12} {dataset:8} {recipe.source:7} {fields['max_steps']:>8} "
            f"{fields['global_batch']:>5} {fields['lr']:>7}  {fields.get('teacher_family', '-')}"
        )
    for name, description in catalogue.profiles().items():
        say(f"profile {name}: {description}")


def _environments(project: Project) -> None:
    from harness.environments import described

    say(f"{'environment':12} {'python':6} {'platform':22} {'files':>5} {'size':>7}  used by")
    for one in described(project):
        size = "-" if one.size is None else f"{one.size / 1e9:.1f} GB"
        used = ", ".join(one.users) or "the harness"
        beyond = f"  (extends {', '.join(one.extends)})" if one.extends else ""
        say(
            f"{one.name:12} {one.python:6} {one.platform:22} {one.wheels:>5} {size:>7}  "
            f"{used}{beyond}"
        )
        for deviation in one.deviations:
            say(f"  - {deviation.what}: {deviation.reason}")
    say("size: in the Nix store with all it needs, once built; files are shared between them")

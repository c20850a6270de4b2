"""`harness list`: the recipes, profiles and environments there are."""

import click

from harness.project import Project
from harness.recipes import load


@click.command()
@click.option("--environments", is_flag=True, help="List the locked environments instead.")
@click.pass_obj
def command(project: Project, environments: bool) -> None:
    """List recipes and profiles."""
    if environments:
        _environments(project)
        return
    catalogue = load(project.source)
    click.echo(
        f"{'model':12} {'dataset':8} {'source':7} {'steps':>8} {'batch':>5} {'lr':>7}  teacher"
    )
    for model, dataset in catalogue.pairs():
        recipe = catalogue.recipe(model, dataset)
        fields = recipe.fields
        click.echo(
            f"{model:12} {dataset:8} {recipe.source:7} {fields['max_steps']:>8} "
            f"{fields['global_batch']:>5} {fields['lr']:>7}  {fields.get('teacher_family', '-')}"
        )
    for name, description in catalogue.profiles().items():
        click.echo(f"profile {name}: {description}")


def _environments(project: Project) -> None:
    from harness import nix

    for lock in sorted((project.source / "envs").glob("*.json")):
        built = nix.realised(project, lock.stem)
        where = built.path if built else "not built"
        click.echo(f"{lock.stem:8} {nix.lock_sha256(project, lock.stem)[:12]}  {where}")

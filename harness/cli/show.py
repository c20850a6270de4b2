"""`harness show`: a recipe beside its published list, and why they differ."""

import click

from harness.project import Project
from harness.recipes import load


@click.command()
@click.argument("model")
@click.argument("dataset")
@click.option("--profile", default="paper", show_default=True)
@click.pass_obj
def command(project: Project, model: str, dataset: str, profile: str) -> None:
    """Show the published override list of MODEL on DATASET and what is changed, with reasons."""
    catalogue = load(project.source)
    recipe = catalogue.recipe(model, dataset, profile)
    evidence = str(recipe.fields["evidence"])
    click.echo(f"{recipe.title} on {dataset}, profile {profile}; published: {evidence}")
    click.echo(f"  {catalogue.tables['evidence'][evidence]}")
    for published, launched in zip(recipe.published, recipe.listed, strict=True):
        mark = " " if published == launched else "~"
        click.echo(f"{mark} {published}" + ("" if mark == " " else f"   ->   {launched}"))
    for deviation in recipe.deviations:
        for override in deviation.overrides:
            click.echo(f"+ {override}")
        click.echo(f"    {deviation.name}: {deviation.reason} ({deviation.evidence})")
    for override in recipe.additions:
        click.echo(f"+ {override}   (profile {profile})")
    for name, value in recipe.variables.items():
        click.echo(f"$ {name}={value}   (profile {profile})")

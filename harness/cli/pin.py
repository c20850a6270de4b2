"""`harness pin`: add a repository to pins.json."""

import os

import click

from harness.cli.bars import bars
from harness.project import Project


@click.command()
@click.argument("repo")
@click.option("--kind", type=click.Choice(["model", "dataset"]), default="model", show_default=True)
@click.option("--revision", help="Commit, tag or branch; default: what the Hub gives now.")
@click.option("--key", help="The pin's name; default: the repository's.")
@click.pass_obj
def command(project: Project, repo: str, kind: str, revision: str | None, key: str | None) -> None:
    """Pin the model or dataset REPO: its commit now, and the SHA-256 of every file."""
    from harness.data import pinning
    from harness.data.hub import Hub
    from harness.data.places import Places

    hub = Hub(os.environ.get("HF_ENDPOINT"), os.environ.get("HF_TOKEN"))
    chosen = pinning.resolve(hub, "model" if kind == "model" else "dataset", repo, revision)
    with bars() as progress:
        entry = pinning.pin(hub, Places.of(project), chosen, progress)
    name = key or repo.rpartition("/")[2]
    pinning.add(project.source / "pins.json", name, chosen, entry)
    click.echo(f"{name}: {chosen.repo}@{chosen.revision}, in {project.source / 'pins.json'}")

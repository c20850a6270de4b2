"""`harness pin`: add a repository to pins.json."""

import os
from pathlib import Path

import click

from harness.cli.arguments import RUN
from harness.cli.bars import bars
from harness.cli.saying import say
from harness.errors import Refused
from harness.project import Project
from harness.sources import pins as upstreams


@click.command()
@click.argument("repo")
@click.option("--kind", type=click.Choice(["model", "dataset"]), default="model", show_default=True)
@click.option("--revision", help="Commit, tag or branch; default: what the Hub gives now.")
@click.option("--key", help="The pin's name; default: the repository's.")
@click.option(
    "--source",
    type=RUN,
    help="The checkout whose pins.json is written.  [default: the current folder]",
)
@click.pass_obj
def command(
    project: Project,
    repo: str,
    kind: str,
    revision: str | None,
    key: str | None,
    source: Path | None,
) -> None:
    """Pin the model or dataset REPO: its commit now, and the SHA-256 of every file."""
    from harness.data import pinning
    from harness.data.hub import Hub
    from harness.data.locking import only_one
    from harness.data.places import Places

    # Not the tree this runs from: that one lies in the Nix store, which nothing writes to.
    path = (source or Path()).resolve() / "pins.json"
    if not path.is_file():
        raise Refused(f"{path}: not there; run this in a checkout of the harness, or give --source")
    name = key or repo.rpartition("/")[2]
    if name in upstreams(project):
        raise Refused(f"pin {name}: is an upstream's name, which 'fetch' takes; choose a --key")
    if key:
        pinning.check_key(key)
    places = Places.of(project)
    hub = Hub(os.environ.get("HF_ENDPOINT"), os.environ.get("HF_TOKEN"))
    chosen = pinning.resolve(hub, "model" if kind == "model" else "dataset", repo, revision)
    with only_one(places.lock("fetch"), "fetching"), bars() as progress:
        entry = pinning.pin(hub, places, chosen, progress)
        new = pinning.add(path, name, chosen, entry)
    state = "added to" if new else "stands already in"
    say(f"{name}: {chosen.repo}@{chosen.revision}, {state} {path}")
    if new:
        say(f"to fetch it: harness fetch {name}")

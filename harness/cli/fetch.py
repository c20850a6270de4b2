"""`harness fetch`: bring pinned datasets and models into the cache."""

import os

import click

from harness.cli.bars import bars
from harness.project import Project


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="List what would be fetched; write nothing.")
@click.option("--allow-low-disk", is_flag=True, help="Begin with less free space than needed.")
@click.pass_obj
def command(project: Project, names: tuple[str, ...], dry_run: bool, allow_low_disk: bool) -> None:
    """Fetch the pinned datasets or models NAMES; a dataset brings its tokenizers.

    A broken download goes on where it was. A private or gated repository needs HF_TOKEN in the
    environment.
    """
    from harness.data import fetch, pins
    from harness.data.hub import Hub
    from harness.data.locking import only_one
    from harness.data.places import Places

    known, places = pins.load(project.source), Places.of(project)
    parts = fetch.wanted(known, names)
    hub = Hub(os.environ.get("HF_ENDPOINT"), os.environ.get("HF_TOKEN"))
    files = [target for part in parts for target in fetch.targets(hub, part)]
    left = fetch.remaining(places, files)
    if dry_run:
        for target in files:
            click.echo(f"{target.entry.size:>14} {target.wanted.repository} {target.entry.path}")
        click.echo(f"{len(files)} files, {left} bytes to fetch")
        return
    asked = [known.datasets[name].required_free for name in names if name in known.datasets]
    required = max([left, *asked]) if left else 0
    disk = fetch.check_disk(places, required, override=allow_low_disk)
    with only_one(places.lock("fetch"), "fetching"):
        with bars("bytes") as progress:
            found = fetch.fetch(hub, places, files, progress)
        # Of two revisions the one with the data is `main` in the end: it comes first in parts.
        for part in reversed(parts):
            fetch.write_reference(places, part.repository)
        fetch.record(places, known, found, parts, disk)
    click.echo(f"{len(found)} files, all as announced; recorded in {places.downloads}")

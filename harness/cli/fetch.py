"""`harness fetch`: bring pinned datasets, models and upstreams to this machine."""

import os

import click

from harness.cli.bars import bars
from harness.cli.choices import mirror_option
from harness.cli.distrust import full_option
from harness.cli.saying import note, say
from harness.errors import Refused
from harness.project import Project
from harness.sources import Mirror, look, pin, pins


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="List what would be fetched; write nothing.")
@click.option("--allow-low-disk", is_flag=True, help="Begin with less free space than needed.")
@mirror_option
@full_option
@click.pass_obj
def command(
    project: Project,
    names: tuple[str, ...],
    dry_run: bool,
    allow_low_disk: bool,
    mirrors: dict[str, Mirror],
) -> None:
    """Fetch the pinned datasets, models or upstreams NAMES; a dataset brings its tokenizers.

    A broken download goes on where it was. A private or gated repository needs HF_TOKEN in the
    environment. An upstream goes into the Nix store, from GitHub or from the mirror you name.
    """
    for name in mirrors:
        pin(project, name)  # refused where there is no such upstream
    upstreams = [name for name in names if name in pins(project)]
    if upstreams:
        _check_only_upstreams(project, upstreams)
    for name in upstreams:
        _upstream(project, name, mirrors, dry_run)
    if others := tuple(name for name in names if name not in upstreams):
        _from_hub(project, others, dry_run, allow_low_disk)


def _check_only_upstreams(project: Project, names: list[str]) -> None:
    """Refuse a name that `pins.json` has too: which is meant could only be guessed."""
    from harness.data import pins as data_pins

    for name in sorted(data_pins.load(project.source).names.intersection(names)):
        raise Refused(f"{name}: names an upstream and a pin; rename it in pins.json")


def _upstream(project: Project, name: str, mirrors: dict[str, Mirror], dry_run: bool) -> None:
    from harness.mirrors import realise

    if dry_run:
        found = look(project, name, mirrors)
        say(f"{found.label}: {'to fetch' if found.missing else found.path}")
        return
    found = realise(project, name, mirrors, note)
    say(f"{found.label}: {found.path}")


def _from_hub(
    project: Project, names: tuple[str, ...], dry_run: bool, allow_low_disk: bool
) -> None:
    from harness.data import fetch, pins
    from harness.data.digests import Digests
    from harness.data.hub import Hub
    from harness.data.locking import only_one
    from harness.data.places import Places

    known, places = pins.load(project.source), Places.of(project)
    parts = fetch.wanted(known, names)
    hub = Hub(os.environ.get("HF_ENDPOINT"), os.environ.get("HF_TOKEN"))
    files = [target for part in parts for target in fetch.targets(hub, part)]
    fetch.check_listed(places, files)
    left = fetch.remaining(places, files)
    if dry_run:
        for target in files:
            told = f"{target.entry.size:>14} {target.wanted.repository} {target.entry.path}"
            say(told)
        say(f"{len(files)} files, {left} bytes to fetch")
        return
    required = fetch.required(places, known, files)
    disk = fetch.check_disk(places, required, override=allow_low_disk)
    with only_one(places.lock("fetch"), "fetching"):
        with bars("bytes") as progress:
            digests = Digests.of_project(project)
            found = fetch.fetch(hub, places, files, digests, progress)
        # Of two revisions the one with the data is `main` in the end: it comes first in parts.
        for part in reversed(parts):
            fetch.write_reference(places, part.repository)
        fetch.record(places, known, found, parts, disk)
    say(f"{len(found)} files, all as announced; recorded in {places.downloads}")

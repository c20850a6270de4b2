"""`harness cache`: what the data folder holds, and what environments the Nix store does."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from harness.cli.saying import say
from harness.project import Project

if TYPE_CHECKING:
    from harness.data.cache import Item


@click.command()
@click.option("--remove", is_flag=True, help="Remove what is not pinned, after showing it.")
@click.option("--environments", is_flag=True, help="Built environments instead of data.")
@click.option("--yes", is_flag=True, help="With --remove: do not ask.")
@click.pass_obj
def command(project: Project, remove: bool, environments: bool, yes: bool) -> None:
    """List what is pinned, missing, incomplete or not pinned, with sizes.

    Of environments: which this version of the harness uses, and old ones, which other versions
    or other checkouts of yours may use; one that is removed is built again when it is needed.
    """
    (_environments if environments else _data)(project, remove, yes)


def _data(project: Project, remove: bool, yes: bool) -> None:
    from harness.data import cache, pins
    from harness.data.locking import only_one
    from harness.data.places import Places

    places = Places.of(project)
    items = cache.survey(places, pins.load(project.source))
    if not remove:
        _list(items)
        return
    if not cache.unpinned(items):
        say("nothing to remove: all that is there is pinned")
        return
    # A fetch has files that no snapshot names yet.
    with only_one(places.lock("fetch"), "fetching"):
        chosen = cache.unpinned(cache.survey(places, pins.load(project.source)))
        _show(chosen)
        total = sum(item.size for item in chosen)
        _ask_and_remove(len(chosen), total, yes, lambda: cache.remove(chosen))


def _list(items: list["Item"]) -> None:
    _show(items)
    held = {
        state: sum(item.size for item in items if item.state == state)
        for state in ("pinned", "incomplete", "not pinned")
    }
    say(", ".join(f"{_mib(amount)} {state}" for state, amount in held.items()))
    say("missing is brought by: harness fetch NAME, harness prepare NAME")
    if any(item.state == "not pinned" for item in items):
        say("not pinned is removed by: harness cache --remove")


def _show(items: Iterable["Item"]) -> None:
    for item in items:
        amount = "-" if item.state == "missing" else _mib(item.size)
        say(f"{item.state:10} {amount:>16}  {item.what}")


def _environments(project: Project, remove: bool, yes: bool) -> None:
    from harness import built, nix

    found = built.survey(project)
    chosen = built.old(found)
    size = nix.sizes({path for one in found for path in one.closure})
    for one in chosen if remove else found:
        state, total = "in use" if one.used else "old", sum(size[path] for path in one.closure)
        name = one.link.name[: len(one.name) + 13]
        say(f"{state:10} {_mib(total):>16}  {name}")
    theirs = built.only_theirs(chosen, found)
    freed = sum(size[path] for path in theirs)
    if not remove:
        say(f"{len(chosen)} old; removing them frees up to {_mib(freed)}: files are shared")
    elif not chosen:
        say("nothing to remove: all that is there is in use")
    else:
        _ask_and_remove(len(chosen), freed, yes, lambda: built.remove(chosen, theirs))


def _ask_and_remove(count: int, size: int, yes: bool, remove: Callable[[], int]) -> None:
    if yes or click.confirm(f"remove these {count} ({_mib(size)})?"):
        say(f"removed {count} ({_mib(remove())})")


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"

"""`harness cache`: what the data folder holds."""

import click

from harness.project import Project


@click.command()
@click.option("--remove", is_flag=True, help="Remove what is not pinned, after showing it.")
@click.option("--yes", is_flag=True, help="With --remove: do not ask.")
@click.pass_obj
def command(project: Project, remove: bool, yes: bool) -> None:
    """List what is pinned, missing, incomplete or not pinned, with sizes."""
    from harness.data import cache, pins
    from harness.data.places import Places

    items = cache.survey(Places.of(project), pins.load(project.source))
    chosen = cache.unpinned(items) if remove else items
    for item in chosen:
        click.echo(f"{item.state:10} {item.size / 2**20:12.1f} MiB  {item.what}")
    if not remove:
        return
    if not chosen:
        click.echo("nothing to remove: all that is there is pinned")
        return
    total = sum(item.size for item in chosen) / 2**20
    if yes or click.confirm(f"remove these {len(chosen)} ({total:.1f} MiB)?"):
        cache.remove(chosen)
        click.echo(f"removed {len(chosen)} ({total:.1f} MiB)")

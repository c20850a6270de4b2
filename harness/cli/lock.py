"""`harness lock`: regenerate an environment's lock from its `.in` file."""

from pathlib import Path

import click

from harness import lock
from harness.cli.arguments import Place
from harness.cli.saying import say
from harness.errors import HarnessError
from harness.nix import host_python
from harness.project import Project


@click.command("lock")
@click.argument("environment")
@click.option("--check", is_flag=True, help="Only say whether the lock is up to date.")
@click.option("--python", default=lock.PYTHON, show_default=True, help="Python version.")
@click.option("--platform", default=lock.PLATFORM, show_default=True, help="Platform tag.")
@click.option(
    "--envs",
    type=Place(file_okay=False),
    help="Folder of .in files and locks.  [default: envs/ of the current folder]",
)
@click.pass_obj
def command(
    project: Project, environment: str, check: bool, python: str, platform: str, envs: Path | None
) -> None:
    """Resolve envs/ENVIRONMENT.in with pip and write envs/ENVIRONMENT.json."""
    # Not the tree this runs from: that one lies in the Nix store, which nothing writes to.
    folder = envs or project.root / "envs"
    pip = [str(host_python()), "-m", "pip"]
    fresh = lock.resolve(folder, environment, pip, python, platform)
    path = folder / f"{environment}.json"
    if not check:
        lock.write(folder, fresh)
        say(f"{path}: {len(fresh.wheels)} files")
    elif lock.load(folder, environment) != fresh:
        raise HarnessError(f"{path}: out of date; run: harness lock {environment}")
    else:
        say(f"{path}: up to date")

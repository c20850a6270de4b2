"""`harness shell`: a shell where a recipe's trainer would run, to look around."""

import sys
from dataclasses import replace

import click

from harness import places
from harness.cli.choices import launch_choices
from harness.cli.distrust import full_option
from harness.cli.saying import note
from harness.plan import Choices, plan
from harness.project import Project


@click.command()
@launch_choices
@click.argument("words", nargs=-1)
@full_option
@click.pass_obj
def command(project: Project, choices: Choices, words: tuple[str, ...]) -> None:
    """Open a shell (or run WORDS) in the sandbox of MODEL on DATASET.

    The output folder is empty and vanishes at the end; everything else is as for `train`.
    """
    from harness import sandbox
    from harness.launch import ready_launch

    launch = ready_launch(project, plan(project, choices), note)
    box = launch.box()
    inside = replace(
        box,
        mounts=tuple(mount for mount in box.mounts if not mount.writable),
        tmpfs=(*box.tmpfs, places.OUTPUT),
    )
    process = sandbox.start(inside, list(words) or ["/bin/sh"], stdin=None)
    sys.exit(process.wait())

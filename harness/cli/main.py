"""The command group: names, one-line helps, and errors as one line."""

import importlib
import os
import sys
from pathlib import Path

import click

from harness.errors import HarnessError
from harness.project import Project

# Subcommands are imported when called: the CLI's start stays fast.
COMMANDS = {
    "train": "Train a recipe in the sandbox and record the result.",
    "plan": "Show a launch (argv, mounts, inputs) without doing anything.",
    "show": "Show a recipe: published list, deviations and why.",
    "list": "List recipes, profiles and datasets.",
    "fetch": "Fetch pinned datasets and tokenizers.",
    "prepare": "Tokenise and pack a dataset.",
    "verify": "Read every row of a prepared dataset and check it.",
    "cache": "List what the cache holds, what is pinned, what is missing.",
    "pin": "Add a dataset or model to the pins.",
    "audit": "Check a run folder against its recorded identity.",
    "replicate": "Run a recorded launch again and compare.",
    "diff": "Compare two runs field by field.",
    "report": "Set runs, verdicts and published numbers side by side.",
    "lock": "Regenerate an environment's lock.",
    "doctor": "Say what is ready on this machine and how to mend what is not.",
    "shell": "Open a shell inside a recipe's sandbox.",
}


class LazyGroup(click.Group):
    """A group whose subcommands are modules of this package, imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command object, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"harness.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=None, version=importlib.import_module("harness").__version__)
@click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="HARNESS_ROOT",
    default=Path(),
    show_default="the current folder",
    help="Folder that holds data/ and runs/.",
)
@click.pass_context
def group(ctx: click.Context, root: Path) -> None:
    """Train, audit and replicate diffusion language models from pins alone."""
    source = os.environ.get("HARNESS_SOURCE") or Path(__file__).parents[2]
    ctx.obj = Project(source=Path(source), root=root.resolve())


def main() -> None:
    """Run the command line; a HarnessError is one line on stderr and its exit status."""
    try:
        group(prog_name="harness")
    except HarnessError as error:
        click.echo(f"harness: {error}", err=True)
        sys.exit(error.exit_code)

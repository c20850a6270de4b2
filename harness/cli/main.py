"""The command group: names, one-line helps, and errors as one line."""

import errno
import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path

import click

from harness.cli.saying import note
from harness.errors import HarnessError, Refused
from harness.files import impossible
from harness.project import Project
from harness.text import line, lines, short

INTERRUPTED = 130
# A path that was given is wrong, and no disk at fault.
WRONG = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)

# Subcommands are imported when called: the CLI's start stays fast.
COMMANDS = {
    "train": "Train a recipe in the sandbox and record the result.",
    "plan": "Show a launch (argv, mounts, inputs) without doing anything.",
    "submit": "Submit launches to Slurm, one or a whole matrix.",
    "status": "Show what every run is doing, from files alone.",
    "logs": "Print a run's logs, and follow them.",
    "cancel": "Take launches back from Slurm.",
    "show": "Show a recipe: published list, deviations and why.",
    "list": "List recipes, profiles and datasets.",
    "fetch": "Fetch pinned datasets and tokenizers.",
    "prepare": "Tokenise and pack a dataset.",
    "verify": "Read every row of a prepared dataset and check it.",
    "cache": "List what the cache holds, what is pinned, what is missing.",
    "pin": "Add a dataset or model to the pins.",
    "audit": "Check a run folder against its recorded identity.",
    "replicate": "Run a recorded launch again and compare.",
    "conform": "Run upstreams' own code, shrunk, twice on a CPU, and compare.",
    "diff": "Compare two runs field by field.",
    "report": "Set runs, verdicts and published numbers side by side.",
    "sample": "Print text that a completed run's model draws.",
    "evaluate": "Measure a completed run's checkpoint by a pinned evaluation.",
    "export": "Write a run as an in-toto Statement or a Workflow Run RO-Crate.",
    "record": "Keep smoke runs' results in the repository, to compare with.",
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
    envvar="HARNESS_ROOT",
    default=".",
    show_default="the current folder",
    help="Folder that holds data/ and runs/.",
)
@click.pass_context
def group(ctx: click.Context, root: str) -> None:
    """Train, audit and replicate diffusion language models from pins alone."""
    source = os.environ.get("HARNESS_SOURCE") or Path(__file__).parents[2]
    ctx.obj = Project(source=Path(source), root=_real(root))


def _real(root: str) -> Path:
    """`root` without links. Raises Refused where it leads nowhere or no record can hold it."""
    why = impossible(root) or ("is no folder" if Path(root).is_file() else None)
    try:
        real = Path(root).resolve() if why is None else Path()
        why = why or impossible(str(real))
    except (OSError, RuntimeError):  # the current folder is gone, or a circle of links
        why = "leads nowhere"
    if why:
        raise Refused(f"--root {short(root)}: {why}; use another folder")
    return real


def main() -> None:
    """Run the command line; what is the user's to mend is one line on stderr, and a status."""
    _stand_in_for_closed_streams()
    try:
        status = group(prog_name="harness", standalone_mode=False)
    except click.ClickException as error:
        error.message = lines(error.message)  # type: ignore[misc]  # a path may be in it
        error.show()
        status = error.exit_code
    except click.Abort:
        status = _failed("interrupted; the same command goes on from where it was", INTERRUPTED)
    except HarnessError as error:
        status = _failed(str(error), error.exit_code)
    except OSError as error:  # a full disk, a folder of another user, ...
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        status = _failed(f"{where}{error.strerror or error}", 2 if error.errno in WRONG else 1)
    sys.exit(status if isinstance(status, int) else 0)


def _failed(message: str, status: int) -> int:
    """Say why the command failed, in one line that a terminal takes for text."""
    with suppress(OSError):  # nobody may listen any more
        note(f"harness: {line(message)}")
    return status


def _stand_in_for_closed_streams() -> None:
    """Open the null device where a standard stream is closed, lest a file takes its place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")

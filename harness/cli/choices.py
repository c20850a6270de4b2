"""The arguments and options that choose a launch, shared by every command that takes one."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from harness import mirrors
from harness.cli.arguments import Place
from harness.plan import Choices

LOCKED = ("global_batch", "lr", "rounds", "steps_per_round", "teacher_family")
mirror_option = click.option(
    "--mirror",
    "mirrors",
    multiple=True,
    metavar="KEY=DIR[@COMMIT]",
    callback=lambda _context, _option, given: mirrors.parse(given),
    help="A copy of an upstream's repository, instead of GitHub.",
)
OPTIONS = (
    click.option("--profile", default="paper", show_default=True, help="paper, or smoke: minutes."),
    click.option(
        *("--devices", "--gpus-per-node", "devices"),
        type=int,
        help="GPUs a node (or CPU processes).",
    ),
    click.option("--nodes", type=int, default=1, show_default=True),
    click.option("--per-device-batch", type=int, help="Examples a device and micro-step."),
    click.option("--seed", type=int, default=42, show_default=True),
    click.option("--resume/--no-resume", default=True, show_default=True),
    click.option(
        "--teacher",
        "teachers",
        type=Place(),
        multiple=True,
        help="A checkpoint or a finished run; of an ensemble, once for each.",
    ),
    click.option("--teacher-weights", help="raw (default), or ema: the averaged ones, adapted."),
    click.option("--student-init", help="Di4C only: hf_small, teacher or scratch."),
    click.option("--name", help="Name of the run folder, instead of the choices' own."),
    mirror_option,
    *(
        click.option(
            "--" + name.replace("_", "-"),
            name,
            help="Locked; accepted when it equals the recipe's.",
        )
        for name in LOCKED
    ),
)


def launch_choices(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the launch arguments; it receives them as one `choices` value."""
    return _choosing(function, required=True)


def one_or_many(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `launch_choices`, but MODEL and DATASET may be left out together: both are "" then."""
    return _choosing(function, required=False)


def _choosing(function: Callable[..., Any], required: bool) -> Callable[..., Any]:
    @wraps(function)
    def command(*args: Any, **given: Any) -> Any:
        if given["dataset"] is None and given["model"] is not None:
            raise click.UsageError("Missing argument 'DATASET'.", click.get_current_context())
        locked = {name: given.pop(name) for name in LOCKED}
        chosen = {name: given.pop(name) for name in Choices.__dataclass_fields__ if name in given}
        chosen |= {"model": chosen["model"] or "", "dataset": chosen["dataset"] or ""}
        choices = Choices(**chosen, locked={n: v for n, v in locked.items() if v is not None})
        return function(*args, choices=choices, **given)

    arguments = [click.argument(name, required=required) for name in ("model", "dataset")]
    for option in reversed((*arguments, *OPTIONS)):
        command = option(command)
    return command

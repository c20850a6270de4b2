"""`--memory`, `--tasks`: the options of every command that runs an upstream in the sandbox."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from harness.limits import Limits


def _memory(context: click.Context, _: click.Parameter, size: str | None) -> None:
    if size is not None:
        _set(context, memory=Limits.of(size, None).memory)


def _tasks(context: click.Context, _: click.Parameter, number: int | None) -> None:
    if number is not None:
        _set(context, tasks=Limits.of(None, number).tasks)


def _set(context: click.Context, **limits: int | None) -> None:
    context.obj = replace(context.obj, limits=replace(context.obj.limits, **limits))


def limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options; its project has the limits. Refused where none can be set."""
    memory = click.option(
        "--memory",
        expose_value=False,
        callback=_memory,
        help="The most memory the sandbox may use: bytes, or 8G, 512M.",
    )
    tasks = click.option(
        "--tasks",
        type=int,
        expose_value=False,
        callback=_tasks,
        help="The most processes and threads in the sandbox.",
    )
    return memory(tasks(function))

"""`--full`: the option of every command that compares large files with their digests."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click


def _distrust(context: click.Context, _: click.Parameter, full: bool) -> None:
    if full:
        context.obj = replace(context.obj, distrust=True)


def full_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option; the command sees its project distrust remembered digests."""
    return click.option(
        "--full",
        is_flag=True,
        expose_value=False,
        callback=_distrust,
        help="Read every file again; else one that did not change since is known by its digest.",
    )(function)

"""What a command says: what a terminal would act on is always written as an escape."""

import json

import click

from harness.text import lines, printable


def say(text: str) -> None:
    """One line of the result, on stdout."""
    click.echo(printable(text))


def note(text: str) -> None:
    """One line beside the result, on stderr."""
    click.echo(printable(text), err=True)


def say_lines(text: str) -> None:
    """Text whose line ends and tabs are its own."""
    click.echo(lines(text))


def say_json(value: object) -> None:
    """A value for programs; every character beyond ASCII is an escape."""
    click.echo(json.dumps(value, indent=1))

"""Every command the README tells is one that exists and takes these words."""

import re
import shlex
from pathlib import Path

import click
import pytest

from harness.cli.main import COMMANDS, group

SOURCE = Path(__file__).parents[1]
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
HANDLED_BY_BOOTSTRAP = {"test"}


def commands() -> list[tuple[str, list[str]]]:
    found = []
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line)
                if words[:1] == ["./bootstrap"]:
                    found.append((words[1], words[2:]))
                elif words[:2] == ["nix", "run"]:
                    found.append((words[2].removeprefix(".#"), words[4:]))
    return found


def test_the_readme_tells_commands() -> None:
    assert len(commands()) > 8


@pytest.mark.parametrize(("name", "words"), commands(), ids=lambda value: str(value))
def test_a_told_command_exists_and_takes_its_words(name: str, words: list[str]) -> None:
    if name in HANDLED_BY_BOOTSTRAP:
        assert words == [] or (len(words) == 1 and (SOURCE / words[0]).is_file())
        return
    assert name in COMMANDS
    command = group.get_command(click.Context(group), name)
    assert command is not None
    command.make_parser(click.Context(command)).parse_args(list(words))


def test_every_relative_link_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_command_can_be_loaded() -> None:
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None and command.help, name

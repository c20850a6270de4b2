"""The locked environments, as a reader wants to know them: whose they are, and what they take."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness import nix
from harness.lock import Deviation, chain
from harness.project import Project
from harness.recipes import load


@dataclass(frozen=True)
class Described:
    """One environment; `size` in bytes counts all that it needs, base included, once it is built.

    `users` are the sources whose code runs in it.
    """

    name: str
    python: str
    platform: str
    extends: tuple[str, ...]
    wheels: int
    users: tuple[str, ...]
    deviations: tuple[Deviation, ...]
    built: nix.Environment | None
    size: int | None


def described(project: Project) -> Iterator[Described]:
    """Every environment that has a lock, in name order."""
    envs = project.source / "envs"
    for path in sorted(envs.glob("*.json")):
        locks = chain(envs, path.stem)
        built = nix.realised(project, path.stem)
        yield Described(
            name=path.stem,
            python=locks[-1].python,
            platform=locks[-1].platform,
            extends=locks[-1].extends,
            wheels=sum(len(lock.wheels) for lock in locks),
            users=users(project, path.stem),
            deviations=locks[-1].deviations,
            built=built,
            size=None if built is None else nix.size(built.closure),
        )


def users(project: Project, environment: str) -> tuple[str, ...]:
    """The sources whose code runs in an environment."""
    tables: dict[str, Any] = load(project.source).tables["sources"]
    return tuple(name for name, entry in tables.items() if entry["environment"] == environment)

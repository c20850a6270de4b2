"""Adapters: this project's code that runs beside an upstream, in its sandbox.

An adapter is an entry of `adapters/`: a package, a module, or a program that trains. A launch
sees the ones its recipe names and no others, each mounted on its own; the identity has the
digest of exactly those, so that a change in one touches no launch without it.
"""

from collections.abc import Sequence
from pathlib import Path

from harness import places
from harness.errors import Refused
from harness.lock import canonical_name, chain
from harness.nar import nar_sha256
from harness.project import Project
from harness.sandbox import Mount

FOLDER = "adapters"
_BYTE_CODE = "__pycache__"
_README = "README.md"  # seen by every launch


def mounts(project: Project, names: Sequence[str]) -> tuple[Mount, ...]:
    """Each adapter at its place in the sandbox."""
    return tuple(
        Mount(project.source / FOLDER / name, f"{places.ADAPTERS}/{name}")
        for name in (_README, *names)
    )


def digest(project: Project, names: Sequence[str]) -> str:
    """The Nix archive digest of a folder of exactly these adapters, as a launch sees it.

    Raises Refused where one is not in the harness's tree.
    """
    for name in names:
        _path(project, name)
    seen = frozenset({_README, *names})
    return nar_sha256(project.source / FOLDER, exclude=frozenset({_BYTE_CODE}), only=seen)


def check(project: Project, names: Sequence[str], environment: str) -> None:
    """Raises Refused where an adapter is absent, or would hide a package that is pinned."""
    for name in names:
        _path(project, name)
    wheels = (
        wheel for lock in chain(project.source / "envs", environment) for wheel in lock.wheels
    )
    pinned = {wheel.name for wheel in wheels}
    for name in names:
        if canonical_name(name) in pinned:
            raise Refused(
                f"adapter {name}: would hide the {canonical_name(name)} that "
                f"envs/{environment}.json pins; take it out of recipes.json's adapters"
            )


def _path(project: Project, name: str) -> Path:
    path = project.source / FOLDER / name
    if not path.exists():
        raise Refused(f"adapter {name}: there is none of that name in {path.parent}")
    return path

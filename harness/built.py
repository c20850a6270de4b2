"""Environments built on this machine: those this version of the harness uses, and the others.

Each is kept in the Nix store by a link in the user's state folder, named after all that decides
what it holds. A new version of a lock, of the build or of the base means a new link, and the old
one stays until it is removed here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness import nix
from harness.project import Project


@dataclass(frozen=True)
class Built:
    """A link to an environment: whether this version uses it, and its closure's paths."""

    name: str
    link: Path
    used: bool
    closure: frozenset[Path]


def survey(project: Project) -> list[Built]:
    """Every link, those in use first; the closure of one that leads nowhere is empty."""
    used = {nix.link(project, path.stem) for path in (project.source / "envs").glob("*.json")}
    found = []
    for link in sorted((nix.state() / "environments").glob("*")):
        paths = nix.closure(link.resolve()) if link.exists() else ()
        name = link.name.rpartition("-")[0]
        found.append(Built(name, link, link in used, frozenset(paths)))
    return sorted(found, key=lambda one: (not one.used, one.name, one.link))


def old(found: Iterable[Built]) -> list[Built]:
    """What may be removed: other versions of the harness use it, or none does."""
    return [one for one in found if not one.used]


def only_theirs(chosen: Iterable[Built], found: Iterable[Built]) -> frozenset[Path]:
    """The store paths that of all found only the chosen need."""
    chosen = list(chosen)
    kept = {path for one in found if one not in chosen for path in one.closure}
    base = nix.closure(nix.base().path)
    return frozenset(path for one in chosen for path in one.closure).difference(kept, base)


def remove(chosen: Iterable[Built], paths: Iterable[Path]) -> int:
    """Remove the links, then those of `paths` that nothing else keeps; returns bytes freed."""
    for one in chosen:
        one.link.unlink(missing_ok=True)
    free = nix.dead() & frozenset(paths)
    freed = sum(nix.sizes(free).values())
    nix.delete(free)
    return freed

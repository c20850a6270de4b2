"""The launch identity: one canonical JSON document of all that decides a run, and its SHA-256.

Host, GPU, driver, kernel, paths and times are facts for the provenance and stay out of it.
See docs/formats/identity.md for each field.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import __version__, adapters, places
from harness.canonical import digest
from harness.data.ready import DataInputs
from harness.files import sha256_file
from harness.nar import nar_sha256
from harness.nix import Environment
from harness.project import Project
from harness.sources import left_out

if TYPE_CHECKING:  # a plan looks into run folders, which know identities
    from harness.adaptation import Ready
    from harness.plan import Plan

SCHEMA_VERSION = 1
_ABSENT = object()  # not null: a field that is null is there


@dataclass(frozen=True)
class Identity:
    """The document and its digest (lower-case hex)."""

    document: dict[str, object]
    sha256: str


def identify(
    project: Project,
    plan: "Plan",
    environment: Environment,
    data: DataInputs,
    config: bytes,
    teachers: "Sequence[Ready]" = (),
) -> Identity:
    """The identity of one launch, its configuration composed to `config`, its teachers ready."""
    assert len(teachers) == len(plan.teachers)
    transformed = [made for teacher in teachers if (made := teacher.transformed()) is not None]
    assert len(transformed) < 2  # several teachers are taken as they are
    recipe = plan.recipe
    (tree,) = (mount.source for mount in plan.mounts if mount.target == places.SOURCE)
    document: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "harness": {
            "version": __version__,
            "flake_lock_sha256": sha256_file(project.source / "flake.lock"),
        },
        "recipe": recipe.record(),
        "argv": list(plan.argv),
        "working_folder": places.OUTPUT,
        "variables": dict(plan.variables),
        "source": plan.source.record(tree_digest(tree, recipe.source)),
        "adapters": adapters.digest(project, recipe.adapters),
        "environment": {
            "name": environment.name,
            "lock_sha256": environment.lock_sha256,
            "base": {"kind": environment.base.kind, "path": environment.base.path.name},
        },
        "data": {"key": recipe.data, "manifest_sha256": data.manifest_sha256},
        "tokenizer": {
            "name": data.tokenizer_name,
            "revision": data.tokenizer_revision,
            "sha256": data.tokenizer_sha256,
        },
        "teacher": one_or_list(teacher.record() for teacher in teachers),
        "transformation": one_or_list(transformed),
        "config_sha256": hashlib.sha256(config).hexdigest(),
        "seed": plan.choices.seed,
        "resume": plan.choices.resume,
        "student_init": plan.student_init,
        "devices": plan.devices,
        "nodes": plan.nodes,
        "per_device_batch": plan.per_device_batch,
        "accumulation": plan.accumulation,
        "effective_batch": plan.effective_batch,
        "network": "fabric" if plan.nodes > 1 else "none",
    }
    return Identity(document, digest(document))


def one_or_list(values: Iterable[object]) -> object:
    """What a record says of teachers: null, the only one's, or the list of several."""
    found = list(values)
    return None if not found else found[0] if len(found) == 1 else found


def each(recorded: Any) -> tuple[Any, ...]:
    """The values that `one_or_list` made one of."""
    if recorded is None:
        return ()
    return tuple(recorded) if isinstance(recorded, list) else (recorded,)


def tree_digest(path: Path, source: str = "") -> str:
    """The Nix archive digest of the tree of `source`, without what the sandbox does not show."""
    return nar_sha256(path, exclude=left_out(source))


def differences(expected: object, found: object, where: str = "") -> list[str]:
    """The fields in which two JSON documents differ, as slash paths in reading order."""
    if isinstance(expected, dict) and isinstance(found, dict):
        names = [*expected, *(name for name in found if name not in expected)]
        return [
            line
            for name in names
            for line in differences(
                expected.get(name, _ABSENT), found.get(name, _ABSENT), f"{where}/{name}"
            )
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [line for n, (a, b) in pairs for line in differences(a, b, f"{where}/{n}")]
    return [] if expected == found and type(expected) is type(found) else [where.lstrip("/")]


def _index(part: str) -> int:
    """A place in a list, by its digits; beyond any list for what is none."""
    return int(part) if re.fullmatch("[0-9]{1,9}", part) else 1 << 53


def at(document: Any, field: str) -> object:
    """What a JSON document has at a slash path of `differences`; "nothing" where it has none."""
    for part in field.split("/") if field else ():
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list) and _index(part) < len(document):
            document = document[_index(part)]
        elif isinstance(document, dict | list):
            return "nothing"
    return document

"""What a checkpoint holds: tensor digests, step, finiteness; found inside the sandbox.

Nothing here opens a checkpoint: a small tool in the sandbox reads it without executing it, and
its answer is checked against a schema. The digests: docs/formats/checkpoint-digest.md.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import places, sandbox
from harness.errors import Refused
from harness.files import allocated, open_filled
from harness.nix import Environment
from harness.project import Project
from harness.sandbox import Box, Mount
from harness.schemas import validate

_FILES = (f"{places.ROOT}/checkpoints/first", f"{places.ROOT}/checkpoints/second")
# Far below any disk's speed: only a file made to keep the reader busy takes longer.
_SLOWEST = 10 << 20  # bytes a second
_START = 120.0  # seconds


@dataclass(frozen=True)
class TensorDigest:
    """One tensor: its slash path, element type and shape, and the SHA-256 of its bytes."""

    name: str
    group: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str
    finite: bool


@dataclass(frozen=True)
class GroupDigest:
    """The digest over the names, types, shapes and bytes of several tensors."""

    digest: str
    tensors: int
    bytes: int
    finite: bool


@dataclass(frozen=True)
class CheckpointReport:
    """What was found in a checkpoint.

    `groups` holds `all`, and `state` and `ema` where the checkpoint has them. `classes` are the
    classes whose objects it holds besides tensors; none was imported.
    """

    format: str
    step: int | None
    groups: Mapping[str, GroupDigest]
    tensors: tuple[TensorDigest, ...]
    hyper_parameters: object
    classes: tuple[str, ...]

    @property
    def spoilt(self) -> tuple[str, ...]:
        """Names of the weights, averaged ones too, with a NaN or an infinity in them.

        Trainers keep infinities of their own beside the weights (the best score so far, say):
        those do not count, unless the checkpoint has no group of weights.
        """
        weights = {"state", "ema"} & self.groups.keys() or {"other"}
        return tuple(t.name for t in self.tensors if t.group in weights and not t.finite)


@dataclass(frozen=True)
class Comparison:
    """How two checkpoints differ; names are tensors' slash paths, in their order.

    `elements` is the number of unequal elements in the first tensor that differs, `largest` the
    largest absolute difference anywhere and `largest_name` its tensor; None where there is none
    to tell (other type or shape, or values that are not finite).
    """

    compared: int
    differing: int
    first: str | None
    elements: int | None
    largest: float | None
    largest_name: str | None
    missing: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether every tensor of one is in the other, bit for bit."""
        return not (self.differing or self.missing or self.extra)


def read(project: Project, environment: Environment, path: Path) -> CheckpointReport:
    """Digests of every tensor in the checkpoint at `path`.

    Raises Refused, with what was found, where the file is damaged, holds more than plain data,
    or is no plain file; FileNotFoundError where it is absent.
    """
    found = _ask(project, environment, "digest", (path,))
    validate(found, "checkpoint", str(path))
    return CheckpointReport(
        format=found["format"],
        step=found["step"],
        groups={name: GroupDigest(**group) for name, group in found["groups"].items() if group},
        tensors=tuple(
            TensorDigest(**{**row, "shape": tuple(row["shape"])}) for row in found["tensors"]
        ),
        hyper_parameters=found["hyper_parameters"],
        classes=tuple(found["classes"]),
    )


def compare(project: Project, environment: Environment, first: Path, second: Path) -> Comparison:
    """Where the tensors of two checkpoints differ. Raises as `read` does."""
    found = _ask(project, environment, "compare", (first, second))
    validate(found, "comparison", f"{first} and {second}")
    differs, largest = found["first"] or {}, found["largest"] or {}
    return Comparison(
        compared=found["compared"],
        differing=found["differing"],
        first=differs.get("name"),
        elements=differs.get("elements"),
        largest=largest.get("absolute"),
        largest_name=largest.get("name"),
        missing=tuple(found["missing"]),
        extra=tuple(found["extra"]),
    )


def _ask(project: Project, environment: Environment, command: str, paths: tuple[Path, ...]) -> Any:
    """The answer of the tool in the sandbox about `paths`, as JSON not yet checked."""
    size = sum(_size(path) for path in paths)
    files = _FILES[: len(paths)]
    box = Box(
        base=environment.base.path,
        closure=environment.closure,
        mounts=(
            Mount(environment.path, places.ENVIRONMENT),
            Mount(project.source / "harness" / "inside", places.INSIDE),
            *(Mount(path.resolve(), file) for path, file in zip(paths, files, strict=True)),
        ),
        variables={"PYTHONDONTWRITEBYTECODE": "1"},
        cwd=places.ROOT,  # so that `inside` can be imported as a package
    )
    argv = [places.PYTHON, "-m", "inside.checkpoint", command, *files]
    try:
        done = sandbox.run(box, argv, timeout=_START + size / _SLOWEST)
    except subprocess.TimeoutExpired as error:
        raise Refused(
            f"{paths[-1]}: reading it took over {error.timeout:.0f} s; damaged?"
        ) from error
    if done.returncode != 0:
        raise Refused(_complaint(paths, done))
    try:
        return json.loads(done.stdout)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{paths[0]}: the checkpoint reader's answer is not JSON") from error


def _size(path: Path) -> int:
    """The bytes of a file that must be read from a disk: holes take no time worth allowing for."""
    with open_filled(path) as file:
        return allocated(os.fstat(file.fileno()))


def _complaint(paths: tuple[Path, ...], done: subprocess.CompletedProcess[bytes]) -> str:
    """The tool's last line, the sandbox's names of the files replaced by the user's."""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    text = lines[-1] if lines else f"the checkpoint reader ended with status {done.returncode}"
    for path, file in zip(paths, _FILES, strict=False):
        name = f"{Path(file).name}: "
        if text.startswith(name):
            return f"{path}: {text.removeprefix(name)}"
    return f"{' and '.join(str(path) for path in paths)}: {text}"

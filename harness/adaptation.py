"""A launch's teacher made ready: checked, digested, adapted to its student where that must be.

Adapted teachers lie in data/teachers/, a folder each, named by what they were made from, so that
one is made once. The work is done in the sandbox. Format: docs/formats/teacher.md.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import checkpoint, folder, places, sandbox, trees
from harness.canonical import digest
from harness.data.locking import only_one
from harness.data.places import Places
from harness.errors import Refused
from harness.files import open_plain, resolve_inside, sha256_file, sync_folder
from harness.json_files import publish_json
from harness.nix import Environment
from harness.project import Project
from harness.recipes import Recipe
from harness.sandbox import Box, Mount
from harness.schemas import read_record, validate
from harness.teacher import Teacher, check_run

PROVENANCE = "provenance.json"
# What decides an adapted file's bytes; the reading of the source decides only what is refused.
CODE = ("adapt.py", "backbone.py", "teacher.py", "write.py")
_SOURCE = f"{places.ROOT}/teacher.ckpt"
_TIMEOUT = 1800.0  # seconds


@dataclass(frozen=True)
class Transformation:
    """How a teacher was adapted: by what, and what came out."""

    name: str
    code_sha256: str
    output_sha256: str


@dataclass(frozen=True)
class Ready:
    """A teacher that can be mounted: `file` is what the trainer reads.

    `sha256` is of the checkpoint as given, `identity` of the run it came from, if any.
    """

    file: Path
    sha256: str
    identity: str | None
    weights: str
    transformation: Transformation | None
    family: str | None = None

    @property
    def target(self) -> str:
        """Where the trainer finds it in the sandbox."""
        return places.teacher_file(self.family)

    def record(self) -> dict[str, object]:
        """As the launch identity has it; one among several names its family."""
        named = {} if self.family is None else {"family": self.family}
        about = {"sha256": self.sha256, "identity": self.identity, "weights": self.weights}
        return {**named, **about}

    def transformed(self) -> dict[str, str] | None:
        """The transformation, as the launch identity has it."""
        return None if self.transformation is None else asdict(self.transformation)


def ready(project: Project, recipe: Recipe, teacher: Teacher, environment: Environment) -> Ready:
    """Check `teacher`, and adapt it where `recipe` says so.

    Raises Refused where a teacher's run is unfinished or altered, where the file does not hold
    such a teacher, or where the adapted one would not have its probabilities.
    """
    identity = None if teacher.run is None else finished(teacher.run, recipe, teacher.family)
    sha256 = sha256_file(teacher.file)
    name = recipe.fields.get("transformation")
    if name is None:
        if teacher.run is None:
            check_file(project, environment, teacher.file, teacher.weights)
        return Ready(teacher.file, sha256, identity, teacher.weights, None, teacher.family)
    work = Work(project, environment, recipe, teacher, sha256, identity)
    with only_one(
        Places.of(project).lock(f"teacher-{work.target.name}"), f"adapting {teacher.file}"
    ):
        record = existing(work.target) or work.make()
        work.check(record)
    made = Transformation(str(name), work.code, str(record["output_sha256"]))
    return Ready(work.target / folder.MODEL, sha256, identity, teacher.weights, made)


def check_file(project: Project, environment: Environment, file: Path, weights: str) -> None:
    """Raises Refused unless a trainer can load `file` as it is: plain data, finite weights.

    A trainer unpickles it, which would run what it names; a run's result was read before.
    """
    try:
        report = checkpoint.read(project, environment, file)
    except Refused as error:
        raise Refused(f"teacher {error}") from error
    if "state" not in report.groups:
        raise Refused(f"teacher {file}: holds no weights (no state_dict)")
    if weights == "ema" and "ema" not in report.groups:
        raise Refused(f"teacher {file}: holds no averaged weights, which are what is taken of it")
    if report.spoilt:
        raise Refused(f"teacher {file}: {report.spoilt[0]} is not finite")


def finished(run: Path, recipe: Recipe, family: str | None = None) -> str:
    """The identity of a finished run whose files all have their bytes. Raises Refused if not."""
    check_run(run, recipe, family)
    record = folder.completed(run)
    faults = folder.altered(run, record)
    identity = digest(read_record(run / folder.IDENTITY, "identity"))
    if identity != record["identity_sha256"]:
        faults.insert(0, f"{folder.IDENTITY} is another launch's")
    if faults:
        raise Refused(f"teacher {run}: {faults[0]}; 'harness audit' tells all of it")
    return identity


def decided(
    fields: Mapping[str, Any], code: str, sha256: str, identity: str | None, weights: str
) -> dict[str, object]:
    """What decides an adapted file, as its provenance record has it; `fields` are a recipe's."""
    return {
        "family": fields["teacher_family"],
        "transformation": {"name": fields["transformation"], "code_sha256": code},
        "weights": weights,
        "source_sha256": sha256,
        "teacher_identity": identity,
        "base_vocabulary": fields["vocabulary"],
        "blocks": fields["teacher_blocks"],
    }


def place(project: Project, decided: Mapping[str, object]) -> Path:
    """The folder of the teacher that is decided so, there or not yet."""
    return resolve_inside(project.root, project.data / "teachers" / digest(decided))


def code_sha256(project: Project) -> str:
    """The digest of the code that adapts teachers."""
    inside = project.source / "harness" / "inside"
    return digest({name: sha256_file(inside / name) for name in CODE})


@dataclass(frozen=True)
class Work:
    """One adaptation: all that decides its result, and where that lies."""

    project: Project
    environment: Environment
    recipe: Recipe
    teacher: Teacher
    sha256: str
    identity: str | None

    @cached_property
    def code(self) -> str:
        """The digest of the code."""
        return code_sha256(self.project)

    @cached_property
    def decided(self) -> dict[str, object]:
        """What decides the adapted file."""
        weights = self.teacher.weights
        return decided(self.recipe.fields, self.code, self.sha256, self.identity, weights)

    @cached_property
    def target(self) -> Path:
        """The folder of the adapted file and its provenance."""
        return place(self.project, self.decided)

    def make(self) -> dict[str, object]:
        """Adapt the teacher in the sandbox and publish the folder whole; returns its record."""
        with _part(self.target) as part:
            made = self.adapt(part / "sandbox")
            # The sandbox is gone, so nobody else holds or can put anything here.
            (part / "sandbox" / folder.MODEL).rename(part / folder.MODEL)
            trees.remove(part / "sandbox")
            record: dict[str, object] = {
                **made,
                **self.decided,  # last: the tool has no say in these
                "schema_version": 1,
                "output_sha256": sha256_file(part / folder.MODEL),
            }
            validate(record, "teacher", str(self.teacher.file))
            publish_json(part / PROVENANCE, record)
        return record

    def adapt(self, output: Path) -> dict[str, Any]:
        """Run the tool in the sandbox, which writes into `output`; its answer, not yet checked."""
        output.mkdir()
        fields, target = self.recipe.fields, f"{places.OUTPUT}/{folder.MODEL}"
        box = Box(
            base=self.environment.base.path,
            closure=self.environment.closure,
            mounts=(
                Mount(self.environment.path, places.ENVIRONMENT),
                Mount(self.project.source / "harness" / "inside", places.INSIDE),
                Mount(self.teacher.file, _SOURCE),
                Mount(output, places.OUTPUT, writable=True),
            ),
            variables={"PYTHONDONTWRITEBYTECODE": "1"},
            cwd=places.ROOT,  # so that `inside` can be imported as a package
        )
        command = [places.PYTHON, "-m", "inside.teacher", _SOURCE, target]
        command += ["--transformation", str(fields["transformation"])]
        command += ["--weights", self.teacher.weights]
        command += ["--base", str(fields["vocabulary"]), "--blocks", str(fields["teacher_blocks"])]
        try:
            done = sandbox.run(box, command, timeout=_TIMEOUT)
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
            if done.returncode != 0:
                raise Refused(f"teacher {self.teacher.file}: {lines[-1][:400]}")
            open_plain(output / folder.MODEL).close()
            return dict(json.loads(done.stdout))
        except (ValueError, TypeError, OSError, subprocess.TimeoutExpired) as error:
            why = f"the adapting tool failed ({type(error).__name__})"
            raise Refused(f"teacher {self.teacher.file}: {why}") from error

    def check(self, record: dict[str, object]) -> None:
        """Raises Refused unless the published folder is the one this work makes, whole."""
        if {name: record[name] for name in self.decided} != self.decided:
            raise Refused(f"{self.target}: was made from something else; remove it")
        if sha256_file(self.target / folder.MODEL) != record["output_sha256"]:
            raise Refused(f"{self.target / folder.MODEL}: has other bytes than recorded; remove it")


def existing(target: Path) -> dict[str, object] | None:
    """The record of a published adaptation; None where there is none."""
    return read_record(target / PROVENANCE, "teacher") if target.exists() else None


@contextmanager
def _part(target: Path) -> Iterator[Path]:
    """A folder that becomes `target` when the block ends well, and vanishes when it does not."""
    part = target.with_name(f".{target.name}.part")
    trees.remove(part)
    part.mkdir(parents=True)
    try:
        yield part
        with (part / folder.MODEL).open("rb") as file:
            os.fsync(file.fileno())
        sync_folder(part)
        part.rename(target)
    except BaseException:
        trees.remove(part)
        raise
    sync_folder(target.parent)

"""Commands over run folders and the records of jobs that somebody else wrote."""

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import run_folders
from click.testing import CliRunner
from fuzz.target import EXPECTED, SOURCE

from harness import folder
from harness.audit import audit
from harness.canonical import digest
from harness.cli.main import group
from harness.json_files import json_bytes
from harness.project import Project
from harness.slurm import commands
from harness.slurm.meeting import Place, join_meeting, open_meeting


@cache
def whole_run() -> Path:
    """A completed run that the record targets spoil copies of."""
    root = Path(tempfile.mkdtemp(prefix="harness-fuzz-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.checkpoint._ask", run_folders.read_here)
        patch.setattr("harness.sandbox.version", lambda: "0.8.0")
        return run_folders.completed_run(Project(SOURCE, root))


def record_seeds(name: str) -> Callable[[], list[bytes]]:
    return lambda: [(whole_run() / name).read_bytes()]


def in_a_run(name: str) -> Callable[[bytes, Path], object]:
    """Have every command that reads run folders read one in which a record is other bytes.

    The records vouch for themselves and for each other with digests; these are made right, as one
    who means harm would, so that what is behind the digests is reached too.
    """

    def read(data: bytes, scratch: Path) -> None:
        root = scratch / "root"
        shutil.rmtree(root, ignore_errors=True)
        spoilt = root / "runs" / whole_run().name
        shutil.copytree(whole_run(), spoilt)
        (spoilt / name).write_bytes(_vouched(data) if name == folder.COMPLETED else data)
        if name != folder.COMPLETED:
            run_folders.relist(spoilt)
        project = Project(SOURCE, root)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("harness.checkpoint._ask", run_folders.read_here)
            patch.setattr("harness.audit.Machine", run_folders.Here)
            found = audit(run_folders.Here(project), spoilt)
            json_bytes(found.record())
            assert found.exit_code or _same(data, (whole_run() / name).read_bytes())
            for words_ in _commands(spoilt, scratch):
                result = CliRunner().invoke(group, ["--root", str(root), *words_])
                if not isinstance(result.exception, (SystemExit, type(None), *EXPECTED)):
                    raise result.exception
                assert all(c.isprintable() or c == "\n" for c in result.output), words_

    return read


def _same(one: bytes, two: bytes) -> bool:
    """Whether two records say the same, but for facts that nothing else vouches for."""
    first, second = json.loads(one), json.loads(two)
    for fact in ("attempts", "completed", "paths", "sha256"):
        if fact in first and fact in second:
            first[fact] = second[fact]
    return bool(first == second)


def _commands(spoilt: Path, scratch: Path) -> list[list[str]]:
    other, target = str(whole_run()), str(scratch / "out")
    shutil.rmtree(target, ignore_errors=True)
    return [
        ["audit", str(spoilt)],
        ["audit", str(spoilt), "--paper"],
        ["diff", str(spoilt), other],
        ["export", str(spoilt), "-o", f"{target}.json"],
        ["export", str(spoilt), "--format", "ro-crate", "-o", target],
        ["report", str(spoilt), "--format", "md"],
        ["report", str(spoilt), "--format", "html"],
        ["status"],
        ["logs", spoilt.name],
    ]


def _vouched(data: bytes) -> bytes:
    try:
        value: Any = json.loads(data)
        del value["sha256"]
        value["sha256"] = digest(value)
        return json_bytes(value)
    except (ValueError, TypeError, KeyError, RecursionError):
        return data


def statement_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "statement.json"
        root = str(whole_run().parents[1])
        CliRunner().invoke(group, ["--root", root, "export", str(whole_run()), "-o", str(path)])
        return [path.read_bytes()]


def read_jobs(scratch: Path) -> None:
    """The commands that read what jobs leave; none may stop at one bad record."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "alive", set)
        patch.setattr(commands, "cancel", lambda jobs: None)
        for words in (["status"], ["status", "--json"], ["logs", "a"], ["cancel", "a"]):
            result = CliRunner().invoke(group, ["--root", str(scratch), *words])
            if not isinstance(result.exception, (SystemExit, type(None), *EXPECTED)):
                raise result.exception
            assert words[0] != "status" or result.exit_code == 0, result.output


SUBMISSION = {
    "schema_version": 1, "job": "7", "run": "/r/runs/a", "identity": None, "model": "mdlm",
    "dataset": "lm1b", "seed": 1, "nodes": 1, "gpus_per_node": 1, "after": [],
    "submitted": "2026-01-01T00:00:00Z",
}  # fmt: skip
OUTCOME = {
    "schema_version": 1, "status": 143, "message": "x", "requeued": True,
    "ended": "2026-01-01T00:00:00Z",
}  # fmt: skip


def read_outcome(scratch: Path) -> None:
    (scratch / "slurm/7.submission.json").write_text(json.dumps(SUBMISSION))
    read_jobs(scratch)


def join(scratch: Path) -> None:
    join_meeting(Place(scratch, "7", 0, ("a", "b"), 1), "0" * 64, "lo", lambda: False)


def open_place(scratch: Path) -> None:
    open_meeting(Place(scratch, "7", 0, ("a", "b"), 0), "0" * 64, "lo", lambda: False)

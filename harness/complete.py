"""Completion: what a finished trainer left is checked, published and recorded, in that order.

Success is evidence, not an exit status: the selected checkpoint exists, holds the recipe's
step, and its tensors are finite.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from io import BufferedReader
from pathlib import Path

from harness import folder, provenance, resume
from harness.canonical import digest
from harness.checkpoint import CheckpointReport, read
from harness.errors import HarnessError, Refused
from harness.files import hollow, open_plain, part_of, publish_file, resolve_inside
from harness.json_files import publish_json
from harness.launch import Launch
from harness.recipes import Fields
from harness.text import LONGEST

METRICS = "metrics.jsonl"
MAX_METRICS = 256 << 20
MAX_ROW = 1 << 20
MAX_ROWS = 4_000_000
MAX_NAMES = 10_000  # of metrics; trainers have some dozens
MAX_MEASURED = 1_000_000  # of metrics that are kept at once


class Unsupported(HarnessError):
    """A training that ended well by its exit status but left no evidence of success."""


def candidates(fields: Fields) -> tuple[str, ...]:
    """Where a recipe's trainer may have left the selected checkpoint, the preferred place first."""
    step = selected_step(fields)
    left = {
        "last": ("checkpoints/last.ckpt",),
        "numbered": (f"checkpoints/checkpoint_{step // int(fields['checkpoint_every'])}.pth",),
        "student": (
            f"student_checkpoints/{step}.ckpt",
            f"checkpoints/0-{step}.ckpt",
            "checkpoints/last.ckpt",
        ),
    }
    return left[str(fields["checkpoint"])]


def selected_step(fields: Fields) -> int:
    """The optimiser step whose checkpoint is a recipe's result."""
    return int(fields.get("selected_step", fields["max_steps"]))


def held_step(fields: Fields) -> int:
    """The step inside that checkpoint: a trainer may make updates beyond those it counts."""
    return selected_step(fields) + int(fields.get("extra_updates", 0))


def complete(run: Path, launch: Launch) -> dict[str, object]:
    """Check, publish and record the result of `launch` in `run`; returns the record.

    Raises Unsupported where the evidence does not hold, naming what is wrong.
    """
    fields = launch.plan.recipe.fields
    chosen = _selected(run, fields)
    report = read(launch.project, launch.environment, chosen)
    _check(report, chosen, held_step(fields))
    sha256 = publish_file(chosen, run / folder.MODEL)
    # What a kill while this record was written left behind is no part of the result.
    part_of(run / folder.COMPLETED).unlink(missing_ok=True)
    body: dict[str, object] = {
        "schema_version": 1,
        "identity_sha256": launch.identity.sha256,
        "config_sha256": launch.identity.document["config_sha256"],
        "checkpoint": {
            "file": folder.MODEL,
            "from": chosen.relative_to(run).as_posix(),
            "sha256": sha256,
            "step": report.step,
            "tensors": {
                name: {"digest": group.digest, "tensors": group.tensors, "bytes": group.bytes}
                for name, group in report.groups.items()
            },
        },
        "metrics": final_metrics(run / folder.OUTPUT / METRICS),
        "completed": provenance.now(),
        "files": [asdict(entry) for entry in folder.inventory(run)],
    }
    if resumed_at := resume.recorded(run):
        body["resumed_at"] = resumed_at
    record = {**body, "sha256": digest(body)}
    publish_json(run / folder.COMPLETED, record)
    return record


def _selected(run: Path, fields: Fields) -> Path:
    for name in candidates(fields):
        path = resolve_inside(run, Path(folder.OUTPUT) / name)
        if path.exists():
            if hollow(path.stat()):
                raise Unsupported(f"{path}: is made of holes; the trainer wrote no checkpoint")
            return path
    raise Unsupported(
        f"{run}: the trainer ended well but left no {candidates(fields)[0]}; see {folder.STDERR}"
    )


def _check(report: CheckpointReport, path: Path, step: int) -> None:
    if report.step != step:
        # A trainer that was asked to stop may end with the status of success.
        early = report.step is not None and report.step < step
        on = "; it was stopped before, and the same command goes on" if early else ""
        raise Unsupported(f"{path}: holds step {report.step}, the recipe's is {step}{on}")
    if report.spoilt:
        count = len(report.spoilt)
        raise Unsupported(f"{path}: {report.spoilt[0]} is not finite ({count} tensors in all)")


def final_metrics(path: Path) -> dict[str, float]:
    """The last value of each metric a trainer wrote, finite numbers only; empty without a file."""
    last: dict[str, float] = {}
    for row in metric_rows(path):
        last |= row
    return last


def metric_rows(path: Path) -> Iterator[dict[str, float]]:
    """The rows of a metrics file (one JSON object a line); lines that are none are passed over.

    The file is the trainer's, so nothing in it is trusted: only finite numbers that a record can
    hold are taken, under names that can be printed. Raises Refused beyond any trainer's bounds.
    """
    if path.parent.is_symlink():
        raise Refused(f"{path.parent}: is a symbolic link; none is followed in a run folder")
    names: set[str] = set()
    try:
        file = open_plain(path)
    except FileNotFoundError:
        return
    with file:
        for line in _lines(path, file):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                taken = {name: n for name, n in row.items() if _name(name) and _recordable(n)}
                names |= taken.keys()
                if len(names) > MAX_NAMES:
                    what = f"names over {MAX_NAMES} metrics; a trainer has some dozens"
                    raise Refused(f"{path}: {what}")
                yield taken


def _lines(path: Path, file: BufferedReader) -> Iterator[bytes]:
    """The lines of a file; a longer one than MAX_ROW comes in pieces, which are no rows."""
    left, rows = MAX_METRICS, MAX_ROWS
    while line := file.readline(MAX_ROW):
        left, rows = left - len(line), rows - 1
        if left < 0 or rows < 0:
            what = f"{MAX_METRICS >> 20} MiB" if left < 0 else f"{MAX_ROWS} lines"
            raise Refused(f"{path}: over {what}; too much for a trainer's metrics")
        yield line


def _name(text: str) -> bool:
    return text.isprintable() and len(text) <= LONGEST


def _recordable(value: object) -> bool:
    """Whether canonical JSON has `value` as a number (RFC 8785: whole ones up to 2^53)."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 1 << 53
    return isinstance(value, float) and math.isfinite(value)

"""One training run: its folder, the trainer in the sandbox, its completion."""

import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness import folder, provenance, resume
from harness.complete import complete
from harness.data import offline, pins
from harness.errors import HarnessError, Refused
from harness.files import open_log, open_plain, publish_bytes, resolve_inside
from harness.folder import State
from harness.json_files import publish_json
from harness.launch import Launch
from harness.site import ALONE, Site
from harness.supervise import supervise

PROGRESS = "progress.json"
INTERRUPTED = (129, 130, 143)
_HINT = "environment variable HYDRA_FULL_ERROR"  # Hydra's last word, after the error's own
_TAIL = 64 << 10  # bytes of a log that tell why it ended
_MOST = 1e12  # what no count, loss or speed that means something exceeds


class TrainingFailed(HarnessError):
    """The trainer ended with a status of its own, which becomes the command's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.exit_code = status


@dataclass(frozen=True)
class Progress:
    """How far a trainer is, as it tells: step of steps, loss, tokens a second, seconds left."""

    step: int
    max_steps: int
    loss: float | None
    tokens_per_second: float | None
    seconds_left: float | None


@dataclass(frozen=True)
class Outcome:
    """A completed run: its folder, its completion record, and whether it was there before."""

    run: Path
    record: dict[str, object]
    skipped: bool


def train(
    launch: Launch,
    on_progress: Callable[[Progress], None],
    stop_after: int | None = None,
    site: Site = ALONE,
) -> Outcome:
    """Run `launch` to completion in its folder, or find that it is complete already.

    With `stop_after` it is interrupted, as by a signal, once it is past that step.
    Raises Refused where the folder belongs to another launch, TrainingFailed with the trainer's
    own status, and Unsupported where a clean exit left no evidence of success.
    """
    run = resolve_inside(launch.project.root, launch.plan.run)
    with folder.locked(run):
        state = folder.state(run, launch.identity)
        if state is State.COMPLETE:
            return Outcome(run, folder.completed(run), skipped=True)
        _write_records(run, launch)
        record = provenance.begin(run, launch, resume.prepare(run, launch), site.facts)
        status = supervise(
            site.box(launch),
            site.command(launch),
            run / folder.STDOUT,
            run / folder.STDERR,
            lambda: _tell(run, on_progress, stop_after) or site.stop(),
        )
        provenance.end(run, record, status)
        if status:
            raise failure(run, launch, status)
        return Outcome(run, complete(run, launch), skipped=False)


def _write_records(run: Path, launch: Launch) -> None:
    """All that says what runs here; the identity first, since the rest can be written again."""
    publish_json(run / folder.IDENTITY, launch.identity.document)
    output = run / folder.OUTPUT
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise Refused(f"{output}: is not a folder; move it away")
    output.mkdir(exist_ok=True)
    publish_json(run / folder.RECIPE, launch.plan.recipe.record())
    publish_json(run / folder.ARGV, list(launch.plan.argv))
    publish_bytes(run / folder.CONFIG, launch.config)


def failure(run: Path, launch: Launch, status: int) -> TrainingFailed:
    """Why a trainer ended with `status`; what it asked the Hub for is added to its log."""
    if status in INTERRUPTED:
        return TrainingFailed(
            f"{run}: interrupted; the same command goes on from its last checkpoint", status
        )
    known = pins.load(launch.project.source)
    hints = offline.explain(_tail(run / folder.STDERR), known, launch.plan.recipe.data)
    why = hints[0].removeprefix("harness: ") if hints else last_line(run / folder.STDERR)
    with suppress(OSError, Refused), open_log(run / folder.STDERR) as log:
        log.write("".join(f"{hint}\n" for hint in hints).encode())
    return TrainingFailed(f"{run}: the trainer ended with status {status}: {why}", status)


def _tail(log: Path) -> str:
    with open_plain(log) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _TAIL))
        return file.read().decode(errors="replace")


def last_line(log: Path) -> str:
    """The last line of a log that says something, made safe for a terminal."""
    lines = [line for line in _tail(log).split("\n") if line.strip() and _HINT not in line]
    lines = lines or ["it said nothing"]
    return "".join(c if c.isprintable() else " " for c in lines[-1]).strip()[:300]


def _tell(run: Path, on_progress: Callable[[Progress], None], stop_after: int | None) -> bool:
    """Pass a trainer's progress on; whether it is past the step to stop after."""
    progress = read_progress(run / folder.OUTPUT / PROGRESS)
    if progress is None:
        return False
    on_progress(progress)
    return stop_after is not None and progress.step > stop_after


def read_progress(path: Path) -> Progress | None:
    """What a trainer says of its progress; None where it says nothing that can be read.

    The file is the trainer's, so a link, a huge file or other nonsense is nothing.
    """
    if path.parent.is_symlink():
        return None
    try:
        with open_plain(path) as file:
            value = json.loads(file.read(4096))
        step, steps = value["step"], value["max_steps"]
        if not all(type(n) is int and 0 <= n <= _MOST for n in (step, steps)):
            return None
        speed, left = _number(value.get("tokens_per_second")), _number(value.get("seconds_left"))
        return Progress(step, steps, _number(value.get("loss")), _finite(speed), _finite(left))
    except (OSError, Refused, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _number(value: object) -> float | None:
    """A number as one, infinities and NaN too (a loss may be); None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if _MOST < abs(value) < math.inf else float(value)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None

"""Going on with an interrupted run of an upstream's trainer: at which step, where it is right.

The built-in trainers go on bit for bit and decide for themselves. The papers' trainers start
their random numbers and their data again, so a run that went on says at which steps, and its
tensors are evidence of a weaker kind. A trainer of rounds has its teacher in no checkpoint: it
finds it again only where a round ends.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from harness import checkpoint, folder
from harness.errors import Refused
from harness.files import held, publish_file, resolve_inside
from harness.launch import Launch
from harness.schemas import read_record
from harness.sources import OWN

# Where a trainer goes on from, by the kind of its checkpoints.
_FROM = {
    "last": "checkpoints/last.ckpt",
    "student": "checkpoints/last.ckpt",
    "numbered": "checkpoints-meta/checkpoint.pth",
}
_NUMBERED = re.compile(r"(?:\d+-)?(\d+)\.ckpt")


def prepare(run: Path, launch: Launch) -> int | None:
    """The step that `launch` goes on from in `run`; None where it starts, or is a built-in one's.

    Where that would be within a round, the checkpoint of the last round's end takes its place,
    and what was made after it is removed. Raises Refused where a checkpoint cannot be read, where
    there are checkpoints that the trainer must not go on from, and where an attempt before this
    one left links or special files, which lead elsewhere.
    """
    folder.check(run)
    recipe = launch.plan.recipe
    output = resolve_inside(run, Path(folder.OUTPUT))
    if recipe.source in OWN or not _checkpoints(output):
        return None
    file = output / _FROM[str(recipe.fields["checkpoint"])]
    if not launch.plan.choices.resume or not file.exists():
        raise Refused(
            f"{output}: holds checkpoints of an attempt that this launch does not go on from; "
            "move them away"
        )
    step = _step(launch, file)
    every = int(recipe.fields.get("steps_per_round", 1))
    if step % every:
        step = _rewind(launch, output, file, step, every)
    return step


def steps(attempts: Iterable[dict[str, Any]]) -> list[int]:
    """The steps at which a result's training went on, since it last began at its beginning."""
    found: list[int] = []
    for attempt in attempts:
        at = attempt.get("resumed_at")
        found = [] if at is None else [*found, at]
    return found


def recorded(run: Path) -> list[int]:
    """The same, of the attempts recorded in a run folder."""
    record: Any = read_record(run / folder.PROVENANCE, "provenance")
    return steps(record["attempts"])


def last_round_end(files: Iterable[Path], before: int, every: int) -> Path | None:
    """Of numbered checkpoints, the last one of a round's end before the step `before`."""
    numbered = {_number(file): file for file in files}
    ends = {n: file for n, file in numbered.items() if 0 < n < before and n % every == 0}
    return ends[max(ends)] if ends else None


def _rewind(launch: Launch, output: Path, file: Path, step: int, every: int) -> int:
    end = last_round_end(_checkpoints(output), step, every)
    if end is None or _step(launch, end) != _number(end):
        raise Refused(
            f"{file}: is of step {step}, within a round of {every}, and there is none of a round's "
            f"end; to start again, move {output} away"
        )
    # Held: on other nodes trainers may run already, and put links where folders were.
    with held(end.parent) as source, held(file.parent) as target:
        publish_file(source / end.name, target / file.name)
    for later in _checkpoints(output):
        if _number(later) > _number(end):
            with held(later.parent) as parent:
                (parent / later.name).unlink()
    return _number(end)


def _checkpoints(output: Path) -> Sequence[Path]:
    folders = ("checkpoints", "checkpoints-meta", "student_checkpoints")
    found = (file for name in folders for file in (output / name).glob("*"))
    return sorted(file for file in found if file.suffix in (".ckpt", ".pth"))


def _number(file: Path) -> int:
    """The step in a checkpoint's name; 0, where no trainer saves one, for other names."""
    found = _NUMBERED.fullmatch(file.name)
    return int(found[1]) if found else 0


def _step(launch: Launch, file: Path) -> int:
    step = checkpoint.read(launch.project, launch.environment, file).step
    if step is None:
        raise Refused(f"{file}: holds no step; move it away to start again")
    return step

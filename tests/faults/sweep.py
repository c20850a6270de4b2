"""Hundreds of faults, each on a launch of its own; after each, what the next command makes of it.

    ./bootstrap test tests/faults/sweep.py [--only KIND] [--every N] [--seed S]

A case is bad where a command leaves a traceback or fails without a line that says why, where an
audit calls a folder good that is not what an undisturbed run leaves, where the next command does
not end with just that, or where the one after it does not skip. Exit status 1 if any is bad.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sandbox_base
from faults.injector import ACTIONS, Injector, Operation
from faults.stage import Command, Stage, good

from harness import folder, provenance
from harness.launch import Launch


@dataclass(frozen=True)
class Case:
    """One fault: `suffer` has a fresh launch suffer it, and returns what is bad at once."""

    kind: str
    name: str
    suffer: Callable[[Stage, Launch], list[str]]
    again: bool = False  # on a run that was killed before, instead of a new one


def check(stage: Stage, case: Case) -> list[str]:
    """Let one case happen; everything that is bad, a line each."""
    root = stage.root(f"{case.kind}-{os.urandom(6).hex()}")
    if case.again:
        _interrupted(stage, root)
    try:
        bad = case.suffer(stage, stage.launch(root))
        return bad + recovered(stage, stage.launch(root))
    finally:
        shutil.rmtree(root)


def recovered(stage: Stage, launch: Launch) -> list[str]:
    """What is bad after a fault: the folder it left, the next command, or the one after that."""
    run, bad = launch.plan.run, []
    if called_good(stage, run) and not good(run):
        bad.append("the audit calls a bad folder good")
    ended = stage.train(launch)
    if ended.status != 0:
        bad.append(f"the next command does not go on: status {ended.status}: {ended.said[-300:]}")
        return bad
    if not good(run):
        bad.append("the next command ends well but left something else than a whole run")
    if not called_good(stage, run):
        bad.append("the audit does not call the whole run good")
    left = [path.name for path in run.rglob("*.part")]
    bad += [f"{name} is left over" for name in left]
    before = (run / folder.COMPLETED).read_bytes()
    third = stage.train(launch)
    if "skipped" not in third.said or (run / folder.COMPLETED).read_bytes() != before:
        bad.append(f"the command after it does not skip: {third.said[-300:]}")
    return bad


def called_good(stage: Stage, run: Path) -> bool:
    """Whether an audit says that all holds."""
    found = stage.audit(run)
    return found is not None and found.exit_code == 0


def _interrupted(stage: Stage, root: Path) -> None:
    """A run whose trainer died in the middle."""
    stage.train(stage.launch(root, at=20))


# Each operation of the launcher.


def operations(stage: Stage) -> Iterator[Case]:
    """Every action at every operation, of a first launch and of one that goes on."""
    for again in (False, True):
        for operation in _listed(stage, again):
            for action in ACTIONS if operation.kind != "exit" else ("kill", "power"):
                suffer = _at(operation, action)
                yield Case("operation", f"{action} at {operation}", suffer, again)


def _listed(stage: Stage, again: bool) -> list[Operation]:
    """The operations of an undisturbed launch, in order; of the logs' writes only the first."""
    root = stage.root("listed")
    if again:
        _interrupted(stage, root)
    launch = stage.launch(root)
    told, tell = os.pipe()

    def prepare() -> None:
        injector = Injector(launch.plan.run)
        injector.install()
        ended = sys.exit

        def told_exit(status: object = 0) -> None:
            try:
                ended(status)  # type: ignore[arg-type]
            finally:
                for one in injector.seen:
                    os.write(tell, f"{one.kind}\t{one.name}\t{one.nth}\n".encode())

        sys.exit = told_exit  # type: ignore[assignment]

    ended = stage.train(launch, prepare)
    os.close(tell)
    with os.fdopen(told) as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    shutil.rmtree(root)
    assert ended.status == 0, ended.said
    found = [Operation(kind, name, int(nth)) for kind, name, nth in rows]
    return [one for one in found if one.nth == 1 or not one.name.endswith(".log")]


def _at(operation: Operation, action: str) -> Callable[[Stage, Launch], list[str]]:
    def suffer(stage: Stage, launch: Launch) -> list[str]:
        injector = Injector(launch.plan.run, operation, action)
        ended = stage.train(launch, injector.install)
        fault = ended.fault()
        bad = [fault] if fault else []
        if action in ("kill", "power") and ended.status != -signal.SIGKILL:
            bad.append(f"it was to be killed, and ended with {ended.status}: {ended.said[-200:]}")
        if action == "SIGINT" and ended.status not in (0, 130, 143):
            bad.append(f"interrupted, it ended with {ended.status}: {ended.said[-200:]}")
        return bad

    return suffer


# The trainer and the sandbox.


def trainer_deaths(stage: Stage) -> Iterator[Case]:
    """The trainer is killed at each of its own writes, flushes and renames."""
    for at in range(1, 40):
        for again in (False, True):

            def suffer(stage: Stage, launch: Launch, at: int = at) -> list[str]:
                ended = stage.train(stage.launch(launch.project.root, at=at))
                return [fault] if (fault := ended.fault()) else []

            yield Case("trainer dies", f"at its operation {at}", suffer, again)


def random_kills(stage: Stage, seed: int, number: int = 90) -> Iterator[Case]:
    """SIGKILL at any moment, up to three in a row: launcher, bubblewrap, trainer or all."""
    dice = random.Random(seed)
    for victim in ("launcher", "bubblewrap", "trainer", "all"):
        for _ in range(number // 4):
            moments = [dice.uniform(0.02, 0.8) for _ in range(dice.randint(1, 3))]
            told = ", ".join(f"{moment:.3f} s" for moment in moments)
            yield Case("random kill", f"{victim} after {told}", _kill(victim, moments))


def _kill(victim: str, moments: list[float]) -> Callable[[Stage, Launch], list[str]]:
    def suffer(stage: Stage, launch: Launch) -> list[str]:
        bad = []
        for moment in moments:
            command = stage.begin(stage.launch(launch.project.root, seconds=0.05))
            time.sleep(moment)
            below = descendants(command.pid)
            chosen = {
                "launcher": [command.pid],
                "bubblewrap": below[:1],
                "trainer": below[-1:],
                "all": [command.pid, *below],
            }[victim]
            for pid in chosen:
                _end(pid)
            ended = command.wait()
            if ended.status >= 0 and (fault := ended.fault()):
                bad.append(fault)
        return bad

    return suffer


def _end(pid: int) -> None:
    """SIGKILL a process of ours, if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def descendants(pid: int) -> list[int]:
    """The processes below `pid`, parents first."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
    return found[1:]


# Disks.


def limits(stage: Stage) -> Iterator[Case]:
    """Files may grow to so many bytes only; stands for a quota."""
    for size in (*range(0, 4000, 250), *range(4000, 20_000, 1500)):

        def suffer(stage: Stage, launch: Launch, size: int = size) -> list[str]:
            def prepare() -> None:
                # What the command says goes to a file too; a pipe's reader has no such limit.
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + (64 << 10), size + (64 << 10)))
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size + (64 << 10)))

            ended = stage.train(launch, prepare)
            silent = ended.status > 0 and size < 500  # nothing could be said
            return [fault] if not silent and (fault := ended.fault()) else []

        yield Case("file size limit", f"{size} bytes", suffer)


def full_disks(stage: Stage) -> Iterator[Case]:
    """A disk of so many KiB, from one where nothing fits to one where all does; root only."""
    for size in range(0, 120, 4):

        def suffer(stage: Stage, launch: Launch, size: int = size) -> list[str]:
            run = launch.plan.run
            run.parent.mkdir()
            with disk(run.parent, f"size={max(4, size)}k") as remount:
                ended = stage.train(launch)
                bad = [fault] if (fault := ended.fault()) else []
                remount("size=64m")
                return bad + recovered(stage, launch)

        yield Case("full disk", f"{size} KiB", suffer)


def read_only(stage: Stage) -> Iterator[Case]:
    """A disk that is read-only before a launch, in the middle of one, and after it."""

    def before(stage: Stage, launch: Launch) -> list[str]:
        launch.plan.run.parent.mkdir()
        with disk(launch.plan.run.parent, "ro") as remount:
            ended = stage.train(launch)
            bad = [fault] if (fault := ended.fault()) else []
            if ended.status == 0:
                bad.append("it ended well on a disk that cannot be written")
            remount("rw")
            return bad + recovered(stage, launch)

    def after(stage: Stage, launch: Launch) -> list[str]:
        launch.plan.run.parent.mkdir()
        with disk(launch.plan.run.parent, "rw") as remount:
            stage.train(launch)
            remount("ro")
            ended = stage.train(launch)
            bad = [] if "skipped" in ended.said else [f"a done run is not skipped: {ended.said}"]
            if not called_good(stage, launch.plan.run):
                bad.append("the audit does not call it good")
            remount("rw")
            return bad + recovered(stage, launch)

    def interrupted(stage: Stage, launch: Launch) -> list[str]:
        launch.plan.run.parent.mkdir()
        with disk(launch.plan.run.parent, "rw") as remount:
            _interrupted(stage, launch.project.root)
            launch = stage.launch(launch.project.root)
            remount("ro")
            ended = stage.train(launch)
            bad = [fault] if (fault := ended.fault()) else []
            remount("rw")
            return bad + recovered(stage, launch)

    for suffer in (before, after, interrupted):
        yield Case("read-only disk", suffer.__name__, suffer)


@contextmanager
def disk(where: Path, options: str) -> Iterator[Callable[[str], None]]:
    """A file system in memory at `where`; yields how to mount it again with other options."""

    def mount(*words: str) -> None:
        subprocess.run(["mount", *words, str(where)], check=True)

    mount("-t", "tmpfs", "-o", options, "tmpfs")
    try:
        yield lambda changed: mount("-o", f"remount,{changed}")
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True)


# Clocks, and launches at once.

CLOCKS = {
    "stands still": ("2026-01-01T00:00:00Z",),
    "is at its beginning": ("1970-01-01T00:00:00Z",),
    "is far ahead": ("2199-01-01T00:00:00Z",),
    "goes backwards": ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"),
    "jumps ahead at the end": (
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z",
        "2199-01-01T00:00:00Z",
    ),
}


def clocks(stage: Stage) -> Iterator[Case]:
    """A clock that is wrong; the run is made all the same, and the audit sees what cannot be."""
    for name, times in CLOCKS.items():
        for again in (False, True):

            def suffer(stage: Stage, launch: Launch, times: tuple[str, ...] = times) -> list[str]:
                def prepare() -> None:
                    shown = iter(times)
                    last = [times[0]]

                    def now() -> str:
                        last[0] = next(shown, last[0])
                        return last[0]

                    provenance.now = now

                ended = stage.train(launch, prepare)
                run = launch.plan.run
                bad = [] if ended.status == 0 and good(run) else [f"it failed: {ended.said[-300:]}"]
                impossible = sorted(times) != list(times) or times[-1] > "2100"
                if impossible and called_good(stage, run):
                    bad.append("the audit believes an impossible time")
                skipped = stage.train(launch)
                if "skipped" not in skipped.said:
                    bad.append("a finished run is not skipped")
                shutil.rmtree(run)
                return bad

            yield Case("clock", name, suffer, again)


def at_once(stage: Stage) -> Iterator[Case]:
    """Several launches of one run: one trains, the others are refused with a line."""
    for number in (2, 2, 2, 3, 5):

        def suffer(stage: Stage, launch: Launch, number: int = number) -> list[str]:
            slow = stage.launch(launch.project.root, seconds=0.2)
            started: list[Command] = [stage.begin(slow) for _ in range(number)]
            endings = [command.wait() for command in started]
            bad = [fault for ended in endings if (fault := ended.fault())]
            if sorted(ended.status for ended in endings) != [0, *[2] * (number - 1)]:
                bad.append(f"ended with {[ended.status for ended in endings]}")
            return bad

        yield Case("at once", f"{number} launches", suffer)


KINDS: dict[str, Callable[[Stage], Iterator[Case]]] = {
    "operations": operations,
    "trainer": trainer_deaths,
    "limits": limits,
    "clocks": clocks,
    "at-once": at_once,
    "disks": full_disks,
    "read-only": read_only,
}
ROOT_ONLY = ("disks", "read-only")


def cases(stage: Stage, seed: int, only: str | None = None) -> Iterator[Case]:
    """All cases, or those of one kind."""
    for name, listed in KINDS.items():
        if only in (None, name) and (os.getuid() == 0 or name not in ROOT_ONLY):
            yield from listed(stage)
    if only in (None, "random"):
        yield from random_kills(stage, seed)


def main() -> int:
    """Run the sweep and tell its numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=(*KINDS, "random"))
    parser.add_argument("--every", type=int, default=1, help="one case in so many")
    parser.add_argument("--seed", type=int, default=0, help="of the random kills")
    options = parser.parse_args()
    if os.getuid() != 0:
        print("skipped: full and read-only disks, which only root can mount")
    counted: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="harness-faults-") as work:
        where = Path(work)
        where.chmod(0o755)
        (where / "base").mkdir()
        stage = Stage.build(where, sandbox_base.build(where / "base"))
        for case in [*cases(stage, options.seed, options.only)][:: options.every]:
            bad = check(stage, case)
            counted[case.kind] += 1
            failed[case.kind] += bool(bad)
            for line in bad:
                again = " (of one that goes on)" if case.again else ""
                print(f"BAD {case.kind}: {case.name}{again}: {line}", flush=True)
    for kind, number in counted.items():
        print(f"{kind:16} {number:4} cases  {failed[kind]:3} bad")
    total = sum(counted.values())
    seconds = time.monotonic() - begun
    print(f"{'all':16} {total:4} cases  {sum(failed.values()):3} bad  {seconds:.0f} s")
    return 1 if any(failed.values()) or not total else 0


if __name__ == "__main__":
    sys.exit(main())

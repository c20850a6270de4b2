"""Audits of every run below a folder, several at once."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from harness.audit.core import audit, holds_run
from harness.audit.machine import Machine
from harness.audit.verdicts import SCHEMA_VERSION, Audit
from harness.errors import Refused


def runs_below(root: Path) -> list[Path]:
    """The run folders at or below `root`, in name order; links are not followed.

    Where `root` has a folder `runs`, only that is searched: the data beside it is large.
    """
    start = root / "runs"
    if not start.is_dir() or start.is_symlink() or holds_run(root):
        start = root
    found = sorted(_runs(start))
    if not found:
        raise Refused(f"{root}: holds no run, nor does any folder below it")
    return found


def _runs(root: Path) -> Iterator[Path]:
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        if holds_run(folder):
            yield folder
            continue
        with os.scandir(folder) as entries:
            below = [Path(entry.path) for entry in entries if entry.is_dir()]
        # Of a link that is a run, the audit says that it is a link.
        waiting += [path for path in below if not path.is_symlink() or holds_run(path)]


def audit_all(machine: Machine, runs: list[Path], told: Callable[[Audit], None]) -> list[Audit]:
    """Audit runs on all cores; `told` hears of each as it is done. In the order of `runs`.

    Two a core: while the one waits for the disk, the other computes.
    """
    with ThreadPoolExecutor(2 * len(os.sched_getaffinity(0))) as pool:
        waiting = {pool.submit(audit, machine, run): run for run in runs}
        done = {}
        try:
            for future in as_completed(waiting):
                done[waiting[future]] = future.result()
                told(done[waiting[future]])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [done[run] for run in runs]


def record(audits: list[Audit]) -> dict[str, Any]:
    """Several audits as JSON; its schema is `audit`."""
    codes = {found.exit_code for found in audits}
    return {
        "schema_version": SCHEMA_VERSION,
        "exit_code": worst(codes),
        "runs": [found.record() for found in audits],
    }


def worst(codes: set[int]) -> int:
    """The exit status of several: 1 where anything differs, 2 where anything is unchecked."""
    return 1 if 1 in codes else 2 if 2 in codes else 0

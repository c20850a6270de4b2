"""Auditing many runs with large checkpoints, beside sha256sum and openssl over the same files.

`python benchmarks/audit.py RUN` copies the finished RUN, with a large checkpoint in place of its
own, into a temporary folder as many times as asked, then measures them in turns.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from side_by_side import best, tell

from harness import checkpoint, folder
from harness.audit import Audit, Machine, audit_all
from harness.canonical import digest
from harness.files import sha256_file
from harness.json_files import publish_json
from harness.project import Project

SOURCE = Path(__file__).parents[1]


def large(path: Path, megabytes: int, step: int, seed: int) -> None:
    """Write a checkpoint of that size, in a hundred tensors."""
    import torch

    torch.manual_seed(seed)
    elements = megabytes * (1 << 20) // 4 // 100
    state = {f"backbone.w{n}": torch.randn(elements) for n in range(100)}
    torch.save({"state_dict": state, "global_step": step}, path)


def grow(machine: Machine, run: Path, target: Path, megabytes: int, seed: int) -> None:
    """A copy of `run` whose checkpoint is large, and whose records fit it."""
    shutil.copytree(run, target)
    record: Any = json.loads((run / folder.COMPLETED).read_text())
    found = record["checkpoint"]
    large(target / folder.MODEL, megabytes, found["step"], seed)
    shutil.copy(target / folder.MODEL, target / found["from"])
    report = checkpoint.read(machine.project, machine.reader(), target / folder.MODEL)
    found["sha256"] = sha256_file(target / folder.MODEL)
    found["tensors"] = {
        name: {"digest": group.digest, "tensors": group.tensors, "bytes": group.bytes}
        for name, group in report.groups.items()
    }
    record["files"] = [asdict(entry) for entry in folder.inventory(target)]
    del record["sha256"]
    publish_json(target / folder.COMPLETED, {**record, "sha256": digest(record)})


def cool(paths: list[Path]) -> None:
    """Have the kernel forget what it read of the files, as far as it lets itself be told."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def on_all_cores(paths: list[Path], *words: str) -> None:
    """Run a command on every file, one process a core."""
    cores = str(len(os.sched_getaffinity(0)))
    text = "\0".join(map(str, paths))
    argv = ["xargs", "-0", "-n", "1", "-P", cores, *words]
    subprocess.run(argv, input=text, text=True, check=True, capture_output=True)


def main() -> None:
    """Grow the runs, then audit and hash them in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--root", type=Path, help="the root RUN was trained in, with its data")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--grown", type=Path, help="keep the grown runs in this folder")
    parser.add_argument("--cold", action="store_true", help="read each time from the disk")
    options = parser.parse_args()
    project = Project(source=SOURCE, root=(options.root or options.run.parents[1]).resolve())
    with tempfile.TemporaryDirectory(dir=project.root) as scratch:
        folder_of_runs = options.grown or Path(scratch)
        runs = [folder_of_runs / f"run{n}" for n in range(options.runs)]
        for seed, run in enumerate(runs):
            if not run.exists():
                grow(Machine(project), options.run, run, options.megabytes, seed)
        measure(project, runs, options.rounds, cold=options.cold)


def measure(project: Project, runs: list[Path], rounds: int, *, cold: bool) -> None:
    """Audit the runs and hash their files in turns; print the times and their ratios."""
    files = [p for run in runs for p in run.rglob("*") if p.is_file()]

    def audited() -> None:
        found: list[Audit] = audit_all(Machine(project), runs, lambda _: None)
        held = {c.name for one in found for c in one.claims if c.verdict.value == "holds"}
        assert {"files", "checkpoint's origin", "tensors: all", "finite"} <= held, held

    ways = {
        "audit": audited,
        "sha256sum": lambda: on_all_cores(files, "sha256sum"),
        "openssl": lambda: on_all_cores(files, "openssl", "dgst", "-sha256"),
    }
    sizes = sum(file.stat().st_size for file in files)
    sys.stdout.write(f"{len(runs)} runs, {len(files)} files, {sizes / 1e9:.1f} GB\n")
    seconds = best(ways, rounds, before=(lambda: cool(files)) if cold else None)
    for name, taken in seconds.items():
        sys.stdout.write(f"{name:12} {sizes / taken / 1e6:6.0f} MB/s\n")
    tell(seconds, ("audit", "sha256sum"), ("audit", "openssl"))


if __name__ == "__main__":
    main()

"""Auditing many runs with large checkpoints, beside sha256sum over the same files.

`python benchmarks/audit.py RUN` copies the finished RUN, with a large checkpoint in place of its
own, into a temporary folder as many times as asked, then measures both, alternating.
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
from harness.files import publish_json, sha256_file
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


def main() -> None:
    """Grow the runs, then audit and hash them in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--root", type=Path, help="the root RUN was trained in, with its data")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    project = Project(source=SOURCE, root=(options.root or options.run.parents[1]).resolve())
    with tempfile.TemporaryDirectory(dir=project.root) as scratch:
        runs = [Path(scratch, f"run{n}") for n in range(options.runs)]
        for seed, run in enumerate(runs):
            grow(Machine(project), options.run, run, options.megabytes, seed)
        files = [str(p) for run in runs for p in run.rglob("*") if p.is_file()]

        def audited() -> None:
            found: list[Audit] = audit_all(Machine(project), runs, lambda _: None)
            wrong = {c.name for one in found for c in one.claims if c.verdict.value == "differs"}
            assert wrong <= {"recorded result"}, wrong  # it is of the small checkpoint

        def hashed() -> None:
            cores = str(len(os.sched_getaffinity(0)))
            words = ["xargs", "-0", "-n", "1", "-P", cores, "sha256sum"]
            subprocess.run(
                words, input="\0".join(files), text=True, check=True, capture_output=True
            )

        sizes = sum(Path(file).stat().st_size for file in files)
        sys.stdout.write(f"{len(runs)} runs, {len(files)} files, {sizes / 1e9:.1f} GB\n")
        seconds = best({"audit": audited, "sha256sum": hashed}, options.rounds)
        tell(seconds, ("audit", "sha256sum"))


if __name__ == "__main__":
    main()

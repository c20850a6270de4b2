"""Whole run folders for tests, written by the functions that write real ones; no trainer runs.

What a trainer would leave is written by hand; checkpoints are read in this process.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_files import whole, write

from harness import adaptation, checkpoint, folder, provenance, run
from harness.audit import Audit, Machine, Verdict
from harness.canonical import digest
from harness.complete import complete
from harness.data import verify
from harness.data.manifest import Manifest
from harness.data.ready import DataInputs
from harness.errors import HarnessError, Refused
from harness.files import open_log
from harness.identity import identify
from harness.inside.checkpoint import canonical, measures, report
from harness.inside.compare import compare
from harness.inside.formats import load
from harness.inside.refusal import Refusal
from harness.json_files import json_bytes
from harness.launch import Launch, taught
from harness.nix import Base, Environment, lock_sha256
from harness.plan import Choices, plan
from harness.project import Project
from harness.sources import Source

SOURCE = Path(__file__).parents[1]
STORE = Path("/nix/store")
BASE = Base(
    path=STORE / f"{'0' * 32}-base", kind="captured", python="3.11.7", system="x86_64-linux",
    glibc="2.36", loader=STORE / "loader", libraries=STORE / "lib",
)  # fmt: skip
CONFIG = b"seed: 42\n"
SMOKE = Choices("mdlm", "lm1b", profile="smoke")


def environment(project: Project) -> Environment:
    """An environment that is nowhere but has the real lock's digest."""
    made = Environment("smoke", STORE / "environment", BASE, lock_sha256(project, "smoke"))
    made.__dict__["closure"] = (BASE.path,)
    return made


def data() -> DataInputs:
    manifest = Manifest({"sequence_length": 128}, {}, (), "2026-01-01T00:00:00Z")
    here = Path("/data")
    return DataInputs(
        manifest=manifest, manifest_sha256="2" * 64, training_cache=here, tokenizer=here,
        tokenizer_name="smoke-bert", tokenizer_revision="3" * 40, tokenizer_sha256="4" * 64,
        hub=here,
    )  # fmt: skip


@dataclass
class Here(Machine):
    """A machine that has what the runs of this module were made from; `without` it lacks."""

    project: Project
    without: frozenset[str] = frozenset()
    base: Base = BASE
    changed: list[Path] = field(default_factory=list)
    problems: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__init__(self.project)

    def tree(self, source: Source) -> str | None:
        return None if "source" in self.without else super().tree(source)

    def environment(self, name: str) -> Environment:
        if "environment" in self.without:
            raise HarnessError(f"environment {name} is not built on this machine")
        found = replace(environment(self.project), base=self.base)
        found.__dict__["closure"] = (self.base.path,)
        return found

    def altered(self, environment: Environment) -> list[Path]:
        return self.changed

    def lacking(self, key: str, layout: str) -> list[str]:
        return [f"processed set {key}: not ready"] if "data" in self.without else []

    def data(self, key: str, layout: str) -> DataInputs:
        return data()

    def rows(self, key: str) -> verify.Verdict:
        return verify.Verdict(data().manifest, 3, self.problems)


def read_here(project: Project, env: Environment, command: str, paths: tuple[Path, ...]) -> Any:
    """Read checkpoints by the same code as in the sandbox, in this process."""
    for path in paths:
        checkpoint._size(path)
    try:
        opened = [load(path) for path in paths]
        if command == "digest":
            document = report(opened[0])
        else:
            first, second = opened
            document = compare(first, measures(first.tensors), second, measures(second.tensors))
    except (Refusal, OSError) as error:
        raise Refused(f"{paths[0].name}: {error}") from error
    return json.loads(canonical(document))


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are read by the same code as in the sandbox, here."""
    monkeypatch.setattr(checkpoint, "_ask", read_here)
    monkeypatch.setattr("harness.sandbox.version", lambda: "0.8.0")


def launch(project: Project, choices: Choices = SMOKE) -> Launch:
    planned = plan(project, choices)
    env, inputs = environment(project), data()
    teachers = tuple(
        adaptation.ready(project, planned.recipe, teacher, env) for teacher in planned.teachers
    )
    planned = taught(planned, teachers)
    identity = identify(project, planned, env, inputs, CONFIG, teachers)
    return Launch(project, planned, env, inputs, CONFIG, identity, teachers)


def losses(steps: int, start: float = 6.0) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = [
        {"step": step, "loss": start - step / steps, "lr": 0.001}
        for step in range(10, steps + 1, steps // 10)
    ]
    validation = {"validation_nll": 4.5, "validation_perplexity": 90.0, "unigram_perplexity": 220.0}
    return [*rows, {"step": steps, **validation}]


def trained(
    launch: Launch, weights: tuple[float, ...] = (1.0, 2.0, 3.0), start: float = 6.0
) -> None:
    """What a trainer leaves in its output folder; its loss begins at `start`."""
    output = launch.plan.run / folder.OUTPUT
    (output / "checkpoints").mkdir(parents=True, exist_ok=True)
    steps = launch.plan.recipe.number("max_steps")
    state = {"backbone.w": whole("float32", "0", len(weights))}
    write(
        output / "checkpoints" / "last.ckpt",
        {
            "state_dict": state,
            "ema": {"decay": 0.9, "shadow_params": [whole("float32", "1", len(weights))]},
            "global_step": steps,
        },
        {key: np.array(weights, "<f4").tobytes() for key in "01"},
    )
    (output / "metrics.jsonl").write_text(
        "".join(json.dumps(r) + "\n" for r in losses(steps, start))
    )
    (output / "progress.json").write_text(json.dumps({"step": steps, "max_steps": steps}))
    for name in (folder.STDOUT, folder.STDERR):
        with open_log(launch.plan.run / name) as log:
            log.write(b"a line\n")


def completed_run(
    project: Project,
    choices: Choices = SMOKE,
    weights: tuple[float, ...] = (1.0, 2.0, 3.0),
    start: float = 6.0,
) -> Path:
    """A completed run's folder; needs the fixture `reading`."""
    ready = launch(project, choices)
    where = ready.plan.run
    with folder.locked(where):
        run._write_records(where, ready)
        record = provenance.begin(where, ready)
        trained(ready, weights, start)
        provenance.end(where, record, 0)
        complete(where, ready)
    return where


def nested(folder: Path, deep: int) -> None:
    """Make so many folders, each in the one before: deeper than Python's own stack."""
    descriptors = [os.open(folder, os.O_RDONLY)]
    for _ in range(deep):
        os.mkdir("d", dir_fd=descriptors[-1])
        descriptors.append(os.open("d", os.O_RDONLY, dir_fd=descriptors[-1]))
        os.close(descriptors.pop(0))
    os.close(descriptors.pop())


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a record and write it in its own format, its own digest right again."""
    value = json.loads(path.read_bytes())
    change(value)
    if "sha256" in value:
        del value["sha256"]
        value["sha256"] = digest(value)
    path.write_bytes(json_bytes(value))


def forge(
    run: Path,
    identity: Callable[[dict[str, Any]], object] = id,
    provenance: Callable[[dict[str, Any]], object] = id,
) -> None:
    """Change a run's records, and make right every digest they have of each other."""
    rewrite(run / "identity.json", identity)
    sha256 = digest(json.loads((run / "identity.json").read_bytes()))
    for name in ("provenance.json", "completed.json"):
        rewrite(run / name, lambda record: record.update(identity_sha256=sha256))
    rewrite(run / "provenance.json", provenance)
    relist(run)


def relist(run: Path) -> None:
    """Make the completion record vouch for the files as they are now."""
    files, _ = folder.scan(run)
    rewrite(
        run / "completed.json",
        lambda r: r.update(files=[vars(files[name]) for name in sorted(files)]),
    )


def differing(found: Audit) -> str:
    """All that an audit says of what differs, as one text."""
    return "\n".join(
        f"{c.name} | {c.expected} | {c.found} | {c.why}"
        for c in found.claims
        if c.verdict is Verdict.DIFFERS
    )


def claims(found: Audit) -> dict[str, Verdict]:
    """The verdict on each claim."""
    return {claim.name: claim.verdict for claim in found.claims}

"""A whole launch in milliseconds, for faults to be tried on by the hundred.

Real: the command line, the run folder, the sandbox, the reading of checkpoints, the audit. Set in
place by hand: a bare environment instead of one that Nix builds, data that is a folder of ready
checkpoints, and a trainer that copies them (trainer.py).
"""

import compileall
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
import run_folders
import sandbox_base
from checkpoint_files import whole, write

from harness import checkpoint, folder, places
from harness.audit import Audit, audit
from harness.cli.main import main
from harness.errors import Refused
from harness.identity import identify, tree_digest
from harness.json_files import read_json
from harness.launch import Launch
from harness.nix import Base, Environment, lock_sha256
from harness.plan import Choices, plan
from harness.project import Project
from harness.sandbox import Mount

SOURCE = Path(__file__).parents[2]
WORDS = ("train", "mdlm", "lm1b", "--profile", "smoke")
CHOICES = Choices("mdlm", "lm1b", profile="smoke")
STEPS = (100, 300, 500)


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit status (minus n for signal n), what it said, most KiB held."""

    status: int
    said: str
    memory: int

    def fault(self) -> str | None:
        """What is wrong with this ending, were it no signal's; None where nothing is."""
        if "Traceback" in self.said:
            return f"a traceback: {self.said[-600:]}"
        last = (self.said.splitlines() or [""])[-1]
        if self.status > 0 and not last.startswith("harness: "):
            return f"status {self.status} without a line that says why: {last!r}"
        return None


@dataclass(frozen=True)
class Stage:
    """What launches are made from; `trainer` is the source tree that they run."""

    work: Path
    base: Base
    environment: Environment
    trainer: Path
    checkpoints: Path

    @staticmethod
    def build(work: Path, base: Path, trainer: Path | None = None) -> "Stage":
        """Set the stage in `work`, with the usual trainer or another file in its place."""
        source, checkpoints = work / "source", work / "checkpoints"
        for made in (source, checkpoints):
            made.mkdir()
        shutil.copy(trainer or Path(__file__).with_name("trainer.py"), source / "main.py")
        for step in STEPS:
            weights = {"state_dict": {"w": whole("float32", "0", 3)}, "global_step": step}
            numbers = np.arange(step, step + 3, dtype="<f4").tobytes()
            write(checkpoints / f"{step}.ckpt", weights, {"0": numbers})
        made = sandbox_base.environment(base, work / "environment")
        for library in (made / "lib", base / "lib"):  # compiled once, not in every sandbox
            if os.access(library, os.W_OK) and "/nix/store" not in str(library):
                compileall.compile_dir(library, quiet=2)
        named = work / f"{'0' * 32}-base"  # as a store path is, which the identity's schema asks
        named.symlink_to(base)
        here = Base(named, "captured", "3.11", "x86_64-linux", "2.36", base, base)
        lock = lock_sha256(Project(SOURCE, work), "smoke")
        environment = Environment("smoke", made, here, lock)
        environment.__dict__["closure"] = sandbox_base.closure(base)
        return Stage(work, here, environment, source, checkpoints)

    def root(self, name: str) -> Path:
        """A new, empty root."""
        root = self.work / "roots" / name
        root.mkdir(parents=True)
        return root

    def launch(self, root: Path, **fault: float | str) -> Launch:
        """The launch in `root`, ready; `fault` is for its trainer to read."""
        project = Project(SOURCE, root)
        planned = plan(project, CHOICES)
        data = root / "data"
        if not data.exists():
            shutil.copytree(self.checkpoints, data)
        (data / "fault").write_text(json.dumps(fault))
        mounts = (
            Mount(self.trainer, places.SOURCE),
            Mount(SOURCE / "adapters", places.ADAPTERS),
            Mount(data, places.DATA),
            Mount(planned.run / folder.OUTPUT, places.OUTPUT, writable=True),
        )
        planned = replace(planned, mounts=mounts)
        inputs = run_folders.data()
        identity = identify(project, planned, self.environment, inputs, run_folders.CONFIG)
        return Launch(project, planned, self.environment, inputs, run_folders.CONFIG, identity)

    def begin(self, launch: Launch, prepare: Callable[[], None] = lambda: None) -> "Command":
        """Start `harness train` on a ready launch, in a process of its own group.

        `prepare` is called in that process first: it puts the faults in place.
        """
        said = launch.project.root / f"said-{os.urandom(4).hex()}"
        child = os.fork()
        if child:
            return Command(child, said)
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
            descriptor = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            for number in (1, 2):
                os.dup2(descriptor, number)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2))
            sys.argv = ["harness", "--root", str(launch.project.root), *WORDS]
            with mock.patch("harness.cli.launching.launch", lambda *_: launch):
                prepare()
                main()
        except SystemExit as ended:
            os._exit(int(ended.code or 0))
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        os._exit(70)

    def train(self, launch: Launch, prepare: Callable[[], None] = lambda: None) -> Ended:
        """`harness train` to its end."""
        return self.begin(launch, prepare).wait()

    def audit(self, run: Path) -> Audit | None:
        """The audit of a run folder; None where it is refused as no run."""
        try:
            with reading():
                return audit(_Here(self, Project(SOURCE, run.parents[1])), run)
        except Refused:
            return None


@dataclass(frozen=True)
class Command:
    """A command that was started: its process, and the file of all it says."""

    pid: int
    log: Path

    def wait(self) -> Ended:
        """How it ends."""
        _, status, used = os.wait4(self.pid, 0)
        said = self.log.read_text(errors="replace") if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        return Ended(os.waitstatus_to_exitcode(status), said, used.ru_maxrss)

    def kill(self) -> None:
        """SIGKILL, to this process alone."""
        os.kill(self.pid, signal.SIGKILL)


class _Here(run_folders.Here):
    """The machine that audits: it has the stage's trainer and environment."""

    def __init__(self, stage: Stage, project: Project) -> None:
        super().__init__(project, base=stage.base)
        self.stage = stage

    def tree(self, source: str) -> str | None:
        return tree_digest(self.stage.trainer)

    def environment(self, name: str) -> Environment:
        return self.stage.environment


@contextmanager
def reading() -> Iterator[None]:
    """Checkpoints are read in this process while the block runs; the code is the same."""
    with mock.patch.object(checkpoint, "_ask", run_folders.read_here):
        yield


def good(run: Path) -> bool:
    """Whether a run is what an undisturbed one leaves; found without the harness's own audit."""
    names = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    expected = {"identity.json", "completed.json", "provenance.json", "model.ckpt", "config.yaml"}
    if not expected <= names or not (run / "output/metrics.jsonl").is_file():
        return False
    try:
        record = read_json(run / "completed.json")
        rows = [
            json.loads(line) for line in (run / "output/metrics.jsonl").read_text().split("\n")[:-1]
        ]
    except (Refused, ValueError):
        return False
    assert isinstance(record, dict)
    listed = {entry["path"]: entry["size"] for entry in record["files"]}
    sizes = {name: (run / name).stat().st_size for name in names - {"completed.json"}}
    last = (run.parents[1] / "data" / f"{STEPS[-1]}.ckpt").read_bytes()
    return (
        listed == sizes
        and (run / "model.ckpt").read_bytes() == last
        and record["checkpoint"]["step"] == STEPS[-1]
        and [row["step"] for row in rows] == list(STEPS)
    )

"""Launches on a real Slurm of a few nodes: together, interrupted, lost, one after the other."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import slurm_cluster

from harness.project import Project
from harness.status import Status, statuses

SOURCE = Path(__file__).parents[2]
TWO = ("mdlm", "lm1b", "--profile", "smoke", "--nodes", "2", "--time", "30")
STEPS, EVERY, SECONDS = 400, 50, 600

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(bool(slurm_cluster.lacking()), reason=str(slurm_cluster.lacking())),
]


@dataclass(frozen=True)
class Site:
    """A root on a cluster, and this project with a smoke profile of seconds."""

    cluster: slurm_cluster.Cluster
    tree: Path
    root: Path

    def harness(self, *words: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        own = {"PYTHONPATH": str(self.tree), "HARNESS_SOURCE": str(self.tree)}
        done = subprocess.run(
            [sys.executable, "-sPm", "harness", "--root", str(self.root), *words],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **self.cluster.variables, **own},
        )
        if check is not None:
            assert done.returncode == check, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def submit(self, *words: str) -> list[dict[str, Any]]:
        return json.loads(self.harness("submit", *words, "--json").stdout)  # type: ignore[no-any-return]

    def status(self, name: str) -> Status:
        found = statuses(Project(source=self.tree, root=self.root))
        return next(one for one in found if one.run.name == name)

    def wait(self, name: str, true: Callable[[Status], bool]) -> Status:
        """The run's status, once `true` holds of it."""
        deadline = time.monotonic() + SECONDS
        while not true(found := self.status(name)):
            assert time.monotonic() < deadline, f"{found}\n{self.told(name)}"
            time.sleep(0.3)
        return found

    def further(self, name: str) -> None:
        """Wait until the run is some steps further than it is now."""
        step = self.status(name).step or 0
        self.wait(name, lambda one: one.state == "running" and (one.step or 0) > step + 2)

    def completed(self, name: str) -> dict[str, Any]:
        """The completion record of a run, once its job has ended."""
        ended = self.wait(name, lambda one: one.state in ("complete", "failed"))
        assert ended.state == "complete", self.told(name)
        return json.loads((self.root / "runs" / name / "completed.json").read_text())  # type: ignore[no-any-return]

    def put_back(self, name: str, job: str) -> None:
        """Wait until the job was put back, then let it run now: Slurm would wait two minutes."""
        deadline = time.monotonic() + SECONDS
        while self.cluster.field(job, "JobState") != "PENDING":
            assert time.monotonic() < deadline, self.told(name)
            time.sleep(0.3)
        self.cluster.wait_idle()
        self.cluster.command("scontrol", "update", f"JobId={job}", "StartTime=now")

    def attempts(self, name: str) -> list[dict[str, Any]]:
        record = json.loads((self.root / "runs" / name / "provenance.json").read_text())
        return record["attempts"]  # type: ignore[no-any-return]

    def told(self, name: str) -> str:
        return self.harness("logs", name, check=None).stdout[-6000:]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("root")
    with slurm_cluster.running(tmp_path_factory.mktemp("slurm")) as cluster:
        yield Site(cluster, quick(tmp_path_factory.mktemp("tree") / "harness"), root)


def quick(tree: Path) -> Path:
    """A copy of this project whose smoke profile is as short as can be."""
    for name in ("adapters", "builtin", "envs", "harness", "nix"):
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCE / name, tree / name, symlinks=True, ignore=left_out)
    for file in (*SOURCE.glob("*.json"), *SOURCE.glob("*.nix"), SOURCE / "flake.lock"):
        shutil.copy(file, tree)
    recipes = json.loads((tree / "recipes.json").read_text())
    smoke = recipes["profiles"]["smoke"]
    short = {"checkpoint_every": 2, "global_batch": 4, "validation_batches": 2, "warmup_steps": 2}
    smoke["every"]["fields"] |= {**short, "max_steps": 4}
    smoke["every"]["choices"]["per_device_batch"] = 2
    smoke["every"]["variables"] |= {"MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    smoke["models"]["duo_dcd"]["fields"] |= {**short, "max_steps": 4, "steps_per_round": 2}
    smoke["models"]["mdlm"]["datasets"]["lm1b"]["fields"] |= {
        **short, "max_steps": STEPS, "checkpoint_every": EVERY,
    }  # fmt: skip
    recipes["fragments"]["smoke"] += ["model.n_blocks=1", "model.hidden_size=32"]
    (tree / "recipes.json").write_text(json.dumps(recipes))
    return tree


@pytest.fixture(scope="module")
def straight(site: Site) -> dict[str, Any]:
    """What two nodes make of the launch when nothing interrupts them."""
    site.submit(*TWO, "--name", "straight")
    return site.completed("straight")


def state(record: dict[str, Any]) -> str:
    return str(record["checkpoint"]["tensors"]["state"]["digest"])


def test_two_nodes_train_one_launch(site: Site, straight: dict[str, Any]) -> None:
    assert straight["checkpoint"]["step"] == STEPS
    run = site.root / "runs/straight"
    assert json.loads((run / "identity.json").read_text())["network"] == "fabric"
    (attempt,) = site.attempts("straight")
    assert [node["name"] for node in attempt["site"]["nodes"]] == ["n1", "n2"]
    assert attempt["site"]["network"]["interface"] == "lo"
    assert "holds" in site.harness("audit", str(run)).stdout
    assert "validation perplexity" in site.harness("logs", "straight").stdout
    (shown,) = json.loads(site.harness("status", "--json").stdout)
    assert (shown["state"], shown["node"]) == ("complete", "n1,n2")
    (again,) = site.submit(*TWO, "--name", "straight")
    assert (again["state"], again["job"]) == ("complete", None)


def test_interrupted_in_every_way_a_launch_ends_with_the_same_bytes(
    site: Site, straight: dict[str, Any]
) -> None:
    name = "interrupted"
    (one,) = site.submit(*TWO, "--name", name)
    job = one["job"]

    # Before the time limit: Slurm sends this by itself, for sbatch's --signal.
    site.further(name)
    site.cluster.command("scancel", "--signal=USR2", job)
    site.wait(name, lambda found: found.state == "queued")
    assert site.submit(*TWO, "--name", name) == [{**one, "state": "waiting"}]
    site.put_back(name, job)

    # Preempted by a job of a partition with a higher claim.
    site.further(name)
    whole = ("--partition=urgent", "--nodes=3", "--exclusive", "--output=/dev/null")
    site.cluster.command("sbatch", *whole, "--wrap=true")
    site.put_back(name, job)

    # A node goes down; what came after the last checkpoint is lost with it.
    site.further(name)
    site.cluster.lose("n2")
    site.put_back(name, job)  # and goes on on another one

    # Cancelled, and submitted again.
    site.further(name)
    assert "cancelled" in site.harness("cancel", name).stdout
    site.wait(name, lambda found: found.state == "cancelled")
    assert "no job of this root" in site.harness("cancel", name, check=2).stderr
    assert site.submit(*TWO, "--name", name)[0]["state"] == "submitted"

    assert state(site.completed(name)) == state(straight)
    saved = [attempt["status"] for attempt in site.attempts(name)]
    assert (saved[:2], saved[3:]) == ([143, 143], [143, 0])
    nodes = [[node["name"] for node in one["site"]["nodes"]] for one in site.attempts(name)]
    assert (nodes[0], nodes[-1]) == (["n1", "n2"], ["n1", "n3"])
    assert [attempt["site"]["restarts"] for attempt in site.attempts(name)][:2] == [0, 1]


def test_students_of_a_matrix_follow_their_teacher(site: Site, tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(
        "schema_version: 1\nprofile: smoke\nrecipes: [duo_dcd]\ndatasets: [lm1b]\nseeds: [1, 2]\n"
    )
    words = ("--matrix", str(matrix), "--time", "30")
    table = site.harness("submit", *words, "--dry-run").stdout.splitlines()
    assert [line.split()[:2] for line in table[1:]] == [["duo", "lm1b"], ["duo_dcd", "lm1b"]] * 2
    found = {Path(one["run"]).name: one for one in site.submit(*words)}
    for seed in (1, 2):
        student, teacher = f"duo_dcd-lm1b-smoke-seed{seed}", f"duo-lm1b-smoke-seed{seed}"
        assert found[student]["after"] == [str(site.root / "runs" / teacher)]
        # An array of teachers; each student waits for its own.
        array, _, index = found[teacher]["job"].partition("_")
        assert index == str(seed - 1)
        assert f"afterok:{array}_{index}" in site.cluster.field(found[student]["job"], "Dependency")
    for seed in (1, 2):
        assert site.completed(f"duo_dcd-lm1b-smoke-seed{seed}")["checkpoint"]["step"] == 4


def test_what_slurm_refuses_is_one_line(site: Site) -> None:
    done = site.harness("submit", *TWO, "--partition", "nowhere", "--name", "x", check=1)
    assert done.stderr.splitlines()[-1].startswith("harness: x: Slurm refused it: sbatch: error:")
    assert "nowhere" in done.stderr


def test_a_launch_that_cannot_train_says_why(site: Site) -> None:
    run = site.root / "runs/broken"
    run.mkdir(parents=True)
    (run / "stranger").write_text("")
    site.submit(*TWO, "--name", "broken")
    found = site.wait("broken", lambda one: one.state == "failed")
    assert "holds stranger but no identity.json" in (found.note or "")

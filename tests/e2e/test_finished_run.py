"""All that can be done with a finished run, on a real one."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import gpt2_files
import pytest
import recorded
import tampering
from command_line import SOURCE, harness
from recorded import read

from harness import checkpoint
from harness.audit import Machine, Verdict, audit
from harness.checkpoint import CheckpointReport
from harness.files import sha256_file
from harness.nix import Environment
from harness.project import Project
from harness.schemas import validate

NAME = "mdlm-lm1b-smoke-seed42"
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


@pytest.fixture
def run(first: tuple[Path, str]) -> Path:
    return first[0] / "runs" / NAME


def test_it_gave_what_is_recorded(run: Path) -> None:
    recorded.check(run)


def test_a_prefix_comes_out_equal(first: tuple[Path, str], run: Path) -> None:
    done = harness(first[0], "replicate", str(run), "--steps", "20", "--json")
    found = json.loads(done.stdout)
    validate(found, "diff", "test")
    assert found["exit_code"] == 0
    assert {s["name"]: s["differing"] for s in found["metrics"]}["loss"] == 0
    assert found["first"] == NAME
    replica = first[0] / "runs" / found["second"]
    assert not (replica / "completed.json").exists()
    harness(first[0], "diff", str(run), str(replica), "--steps", "20")
    shutil.rmtree(replica)


def test_its_evaluation_is_what_the_trainer_measured_last(
    first: tuple[Path, str], run: Path
) -> None:
    found = json.loads(harness(first[0], "evaluate", str(run), "--json").stdout)
    trained = read(run / "completed.json")["metrics"]["validation_perplexity"]
    assert found["value"] == pytest.approx(trained, rel=1e-6)
    assert "skipped" in harness(first[0], "evaluate", str(run)).stdout
    audited = json.loads(harness(first[0], "audit", str(run), "--paper", "--json").stdout)
    validate(audited, "audit", "test")
    assert audited["paper"]
    assert {entry["standing"] for entry in audited["paper"]} == {"not comparable"}


def test_it_is_reported_and_exported(first: tuple[Path, str], run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    harness(first[0], "report", str(first[0] / "runs"), "-o", str(page))
    assert read(run / "completed.json")["identity_sha256"] in page.read_text()
    assert NAME in harness(first[0], "report", str(run), "--format", "md").stdout
    harness(first[0], "export", str(run), "-o", str(tmp_path / "run.json"))
    assert read(tmp_path / "run.json")["predicateType"] == "https://slsa.dev/provenance/v1"
    harness(
        first[0], "export", str(run), "--format", "ro-crate", "-o", str(tmp_path / "crate")
    )  # fmt: skip
    assert (tmp_path / "crate" / "ro-crate-metadata.json").is_file()


def test_what_it_writes_is_judged_by_a_pinned_model(
    first: tuple[Path, str], run: Path, tmp_path: Path
) -> None:
    """By a small GPT-2 in the published one's files: this one's weights take too long to fetch."""
    project = gpt2_files.pinned(tmp_path / "source", first[0])
    name = "generative-perplexity"
    recipes = project.source / "recipes.json"
    few = json.loads(recipes.read_text())
    few["evaluations"][name]["draw"] |= {"count": 8, "steps": 16}
    recipes.write_text(json.dumps(few))
    try:
        done = harness(first[0], "evaluate", str(run), name, "--json", source=project.source)
        found = json.loads(done.stdout)
        rows = [json.loads(line) for line in samples(found).read_text().splitlines()]
        assert len(rows) == found["metrics"]["rows"] == 8
        assert all(len(row["ids"]) == 128 for row in rows)
        # It knows nothing of text: worse than by chance, but no more than its scores are wide.
        assert found["value"] > gpt2_files.END
        assert 1 < found["metrics"]["sample_entropy"] < 4.9  # ln 128
    finally:
        shutil.rmtree(first[0] / "data" / "raw" / "huggingface" / "hub" / "models--gpt2-large")
    refused = harness(first[0], "evaluate", str(run), name, check=2).stderr
    assert "run 'harness fetch gpt2-large'" in refused


def samples(found: dict[str, Any]) -> Path:
    """Where an evaluation's samples lie."""
    return Path(found["folder"], "samples.jsonl")


def test_whatever_is_done_to_it_is_named(
    first: tuple[Path, str], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change of a real run folder, and single bytes all over it; a copy elsewhere holds."""
    machine = Machine(Project(SOURCE, first[0]))
    known: dict[str, CheckpointReport] = {}  # read again only where the bytes are others

    def read_once(project: Project, environment: Environment, path: Path) -> CheckpointReport:
        key = sha256_file(path)
        if key not in known:
            known[key] = read_checkpoint(project, environment, path)
        return known[key]

    read_checkpoint = checkpoint.read
    monkeypatch.setattr(checkpoint, "read", read_once)
    copy = tmp_path / "a copy"
    shutil.copytree(run, copy)
    assert audit(machine, copy).exit_code == 0

    def told(touch: str, name: Path) -> None:
        found = audit(machine, copy)
        differing = [c for c in found.claims if c.verdict is Verdict.DIFFERS]
        texts = " ".join(f"{c.name} {c.why} {c.found}" for c in differing)
        assert found.exit_code == 1, (touch, name)
        assert name.as_posix() in texts, (touch, name)

    for touch, name, change in tampering.all_of(run):
        if (copy / name).is_file() and (copy / name).stat().st_size > 1 << 20:
            continue  # below, and by the tests of audits
        change(copy, tmp_path / "other")
        told(touch, name)
        tampering.restore(run, copy, name, tmp_path / "other")
    drawn = random.Random(0)
    for name in tampering.files(run):
        size = (copy / name).stat().st_size
        for at in sorted({0, size - 1, drawn.randrange(size)}) if size else ():
            tampering.flip(copy / name, at, 1 << drawn.randrange(8))
            told(f"byte {at}", name)
            shutil.copy2(run / name, copy / name)
    assert audit(machine, copy).exit_code == 0

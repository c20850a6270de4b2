"""All that can be done with a finished run, on a real one."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
import recorded
from command_line import harness
from recorded import read

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


def test_every_file_of_it_is_watched(first: tuple[Path, str], run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for path in sorted(path for path in run.rglob("*") if path.is_file()):
        shutil.copytree(run, copy)
        later = time.time() + 86_400
        os.utime(copy / path.relative_to(run), (later, later))
        done = harness(first[0], "audit", str(copy), "--json", check=1)
        told = [c["why"] for c in json.loads(done.stdout)["claims"] if c["verdict"] == "differs"]
        assert any(path.relative_to(run).as_posix() in why for why in told), path
        shutil.rmtree(copy)

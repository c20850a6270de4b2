"""The main job as a user runs it: train, again, killed and resumed, elsewhere, audited."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import harness

SOURCE = Path(__file__).parents[2]
SMOKE = ("mdlm", "lm1b", "--profile", "smoke")
NAME = "mdlm-lm1b-smoke-seed42"
SHORT = ("duo", "lm1b", "--profile", "smoke")  # what is trained twice
SHORT_NAME = "duo-lm1b-smoke-seed42"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


def completed(root: Path, name: str = NAME) -> dict[str, object]:
    return json.loads((root / "runs" / name / "completed.json").read_text())  # type: ignore[no-any-return]


def test_it_prints_the_result(first: tuple[Path, str]) -> None:
    root, printed = first
    record = completed(root)
    for text in (
        str(root / "runs" / NAME),
        record["identity_sha256"],
        record["checkpoint"]["tensors"]["state"]["digest"],
    ):
        assert text in printed


def test_the_loss_falls_and_the_bound_beats_the_unigram(first: tuple[Path, str]) -> None:
    rows = [
        json.loads(line)
        for line in (first[0] / "runs" / NAME / "output" / "metrics.jsonl").read_text().splitlines()
    ]
    losses = [row["loss"] for row in rows if "loss" in row]
    tenth = len(losses) // 10
    assert sum(losses[-tenth:]) < 0.85 * sum(losses[:tenth])
    metrics = completed(first[0])["metrics"]
    assert metrics["validation_perplexity"] < 0.8 * metrics["unigram_perplexity"]


def test_a_completed_run_is_skipped(first: tuple[Path, str]) -> None:
    root, _ = first
    before = (root / "runs" / NAME / "completed.json").read_bytes()
    assert "skipped" in harness(root, "train", *SMOKE).stdout
    assert (root / "runs" / NAME / "completed.json").read_bytes() == before


def test_another_launch_does_not_take_the_folder(first: tuple[Path, str]) -> None:
    refused = harness(first[0], "train", *SMOKE, "--seed", "7", "--name", NAME, check=2)
    assert "belongs to another launch (differs in " in refused.stderr
    assert (
        refused.stderr.count("\n")
        == refused.stderr.count("\n", 0, refused.stderr.rindex("harness:")) + 1
    )


def test_killed_elsewhere_and_run_again_it_ends_with_the_same_bytes(
    first: tuple[Path, str], tmp_path: Path
) -> None:
    root = tmp_path / "another root, d@e=[x]"
    root.mkdir()
    run = root / "runs" / SHORT_NAME
    train = subprocess.Popen(
        [sys.executable, "-sPm", "harness", "--root", str(root), "train", *SHORT],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    checkpoint = run / "output" / "checkpoints" / "last.ckpt"
    deadline = time.monotonic() + 600
    while not checkpoint.exists() and train.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert checkpoint.exists(), train.stderr.read() if train.stderr else ""
    time.sleep(0.5)
    train.send_signal(signal.SIGKILL)
    train.wait()
    assert not (run / "completed.json").exists()
    assert "not finished" in harness(root, "audit", str(run), check=2).stdout
    harness(root, "train", *SHORT)
    harness(first[0], "train", *SHORT)
    one, two = completed(first[0], SHORT_NAME), completed(root, SHORT_NAME)
    for name in ("identity_sha256", "config_sha256", "metrics"):
        assert one[name] == two[name], name
    assert one["checkpoint"]["tensors"] == two["checkpoint"]["tensors"]
    metrics = [r / "runs" / SHORT_NAME / "output" / "metrics.jsonl" for r in (first[0], root)]
    assert metrics[0].read_bytes() == metrics[1].read_bytes()


def test_an_audit_holds_and_sees_each_changed_file(first: tuple[Path, str], tmp_path: Path) -> None:
    root, _ = first
    done = harness(root, "audit", str(root / "runs" / NAME), "--json")
    assert {claim["verdict"] for claim in json.loads(done.stdout)["claims"]} == {"holds"}
    copy = tmp_path / "copy"
    shutil.copytree(root / "runs" / NAME, copy)
    assert harness(root, "audit", str(copy)).returncode == 0
    for path in sorted(p for p in copy.rglob("*") if p.is_file() and p.name != ".lock"):
        before = path.read_bytes()
        path.write_bytes(bytes([before[0] ^ 1]) + before[1:] if before else b"x")
        done = harness(root, "audit", str(copy), check=None)
        assert done.returncode == 1, path
        assert path.name in done.stdout, (path, done.stdout)
        path.write_bytes(before)
    assert harness(root, "audit", str(copy)).returncode == 0

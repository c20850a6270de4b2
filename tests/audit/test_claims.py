"""What a run says of itself, with all digests made right: checked, or said to be unchecked."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import BASE, SMOKE, Here, completed_run, differing, relist, rewrite

from harness.audit import Audit, Machine, Verdict, audit, audit_all, pins, runs_below
from harness.audit.recorded import Recorded
from harness.audit.trees import record, worst
from harness.audit.verdicts import differs, exit_code
from harness.errors import Refused
from harness.folder import IDENTITY
from harness.nar import nar_sha256
from harness.project import Project
from harness.schemas import validate
from harness.sources import commit

LIES: dict[str, tuple[str, Callable[[dict[str, Any]], object], str]] = {
    "the step": ("completed.json", lambda r: r["checkpoint"].update(step=7), "step"),
    "the metrics": ("completed.json", lambda r: r["metrics"].update(loss=0.1), "metrics"),
    "the tensors": (
        "completed.json",
        lambda r: r["checkpoint"]["tensors"]["ema"].update(digest="0" * 64),
        "tensors: ema",
    ),
    "a group left out": (
        "completed.json", lambda r: r["checkpoint"]["tensors"].pop("ema"), "tensors: ema",
    ),
    "where it was": (
        "completed.json",
        lambda r: r["checkpoint"].update({"from": "output/metrics.jsonl"}),
        "checkpoint's place",
    ),
    "completed later than now": (
        "completed.json", lambda r: r.update(completed="2999-01-01T00:00:00Z"), "later than now",
    ),
    "no such day": (
        "completed.json", lambda r: r.update(completed="2026-02-30T00:00:00Z"), "date-time",
    ),
    "the status": ("provenance.json", lambda r: r["attempts"][-1].update(status=1), "exit status"),
    "another launch's facts": (
        "provenance.json", lambda r: r.update(identity_sha256="0" * 64), "identity of the facts",
    ),
    "a seed": ("identity.json", lambda r: r.update(seed=7), "identity | "),
    "a network": ("identity.json", lambda r: r.update(network="fabric"), "network | "),
    "a batch": ("identity.json", lambda r: r.update(accumulation=3), "batch | "),
    "a field of the recipe": (
        "identity.json", lambda r: r["recipe"]["fields"].update(lr=1), "differs in fields/lr",
    ),
    "an argument": ("identity.json", lambda r: r["argv"].append("x=1"), "argument list rendered"),
    "an override": (
        "identity.json",
        lambda r: r["recipe"]["launched"].append("x=1"),
        "argument list rendered",
    ),
    "no fields": ("identity.json", lambda r: r["recipe"].update(fields={}), "makes no sense"),
    "a recipe": ("recipe.json", lambda r: r.update(model="duo"), "recipe | "),
    "the base": (
        "identity.json",
        lambda r: r["environment"].update(lock_sha256="0" * 64),
        "environment lock",
    ),
    "the source": (
        "identity.json", lambda r: r["source"].update(tree=f"sha256-{'A' * 43}="), "source tree",
    ),
    "the adapters": (
        "identity.json", lambda r: r.update(adapters=f"sha256-{'A' * 43}="), "adapters | ",
    ),
    "the data": (
        "identity.json", lambda r: r["data"].update(manifest_sha256="0" * 64), "data | ",
    ),
    "the tokenizer": (
        "identity.json", lambda r: r["tokenizer"].update(sha256="0" * 64), "tokenizer | ",
    ),
    "the harness": (
        "identity.json", lambda r: r["harness"].update(flake_lock_sha256="0" * 64), "flake.lock | ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_with_all_digests_made_right_is_seen(here: Here, run: Path, lie: str) -> None:
    name, change, told = LIES[lie]
    rewrite(run / name, change)
    relist(run)
    found = audit(here, run)
    assert found.exit_code == 1
    assert told in differing(found), differing(found)


def test_a_config_changed_everywhere_but_in_the_identity_is_seen(here: Here, run: Path) -> None:
    (run / "config.yaml").write_bytes(b"seed: 43\n")
    relist(run)
    assert "configuration | " in differing(audit(here, run))


@pytest.mark.parametrize(
    ("lacking", "names"),
    [
        ("source", {"source tree"}),
        ("environment", {"environment", "step", "tensors", "finite"}),
        ("data", {"data", "data rows", "tokenizer"}),
    ],
)
def test_what_is_not_here_is_said_and_the_run_not_called_good(
    project: Project, run: Path, lacking: str, names: set[str]
) -> None:
    found = audit(Here(project, without=frozenset({lacking})), run)
    told = {c.name: c.why for c in found.claims if c.verdict is Verdict.UNCHECKED}
    assert set(told) == names
    assert all(told.values())
    assert found.exit_code == 2


def test_another_base_is_said(project: Project, run: Path) -> None:
    other = replace(BASE, path=BASE.path.with_name(f"{'1' * 32}-base"))
    found = audit(Here(project, base=other), run)
    (claim,) = [c for c in found.claims if c.verdict is Verdict.UNCHECKED]
    assert claim.name == "environment"
    assert other.path.name in claim.why


def test_what_this_machine_holds_is_checked_too(project: Project, run: Path) -> None:
    told = differing(audit(Here(project, changed=[Path("/nix/store/x")]), run))
    assert "environment | " in told
    assert "/nix/store/x" in told
    told = differing(audit(Here(project, problems=("split train: 3 rows",)), run))
    assert "data rows | " in told


def test_a_run_not_completed_is_no_good_run(here: Here, run: Path) -> None:
    (run / "completed.json").unlink()
    found = audit(here, run)
    assert found.exit_code == 1
    assert "completed.json: not found" in differing(found)
    unchecked = {c.name for c in found.claims if c.verdict is Verdict.UNCHECKED}
    assert {"files", "result", "tensors"} <= unchecked


@pytest.mark.parametrize("status", [None, 129, 130, 143])
def test_an_unfinished_run_does_not_differ_and_is_not_good(
    here: Here, run: Path, status: int | None
) -> None:
    (run / "completed.json").unlink()
    rewrite(run / "provenance.json", lambda r: r["attempts"][-1].update(status=status))
    found = audit(here, run)
    assert found.exit_code == 2, differing(found)
    told = {c.name: c.why for c in found.claims}
    assert told["completed.json"].startswith("not finished")
    assert told["exit status"].startswith("not finished")


@pytest.mark.parametrize("status", [1, 137, 139])
def test_a_failed_run_differs(here: Here, run: Path, status: int) -> None:
    (run / "completed.json").unlink()
    rewrite(run / "provenance.json", lambda r: r["attempts"][-1].update(status=status))
    assert "exit status | 0" in differing(audit(here, run))


def test_an_unfinished_run_whose_other_records_were_altered_differs(here: Here, run: Path) -> None:
    (run / "completed.json").unlink()
    rewrite(run / "provenance.json", lambda r: r["attempts"][-1].update(status=None))
    (run / "identity.json").unlink()
    assert audit(here, run).exit_code == 1


@pytest.mark.parametrize("entry", ["link", "folder"])
def test_what_stands_for_a_result_is_no_unfinished_run(here: Here, run: Path, entry: str) -> None:
    rewrite(run / "provenance.json", lambda r: r["attempts"][-1].update(status=None))
    (run / "completed.json").unlink()
    if entry == "link":
        (run / "completed.json").symlink_to("nowhere")
    else:
        (run / "completed.json").mkdir()
    assert audit(here, run).exit_code == 1


def test_no_run_is_refused(here: Here, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="holds no run"):
        audit(here, tmp_path)
    with pytest.raises(Refused, match="holds no run"):
        runs_below(tmp_path)


def test_no_metrics_are_read_through_a_link(here: Here, run: Path, tmp_path: Path) -> None:
    shutil.move(run / "output", tmp_path / "moved")
    (run / "output").symlink_to(tmp_path / "moved")
    found = audit(here, run)
    assert "metrics | " in differing(found)
    assert "symbolic link" in differing(found)


def test_a_tree_of_runs(here: Here, project: Project, run: Path, tmp_path: Path) -> None:
    bad = completed_run(project, replace(SMOKE, seed=7))
    (bad / "model.ckpt").write_bytes(b"x")
    (project.root / "data").mkdir()
    shutil.copytree(run, project.root / "data" / "not looked at")
    (project.runs / "link").symlink_to(run)
    runs = runs_below(project.root)
    assert runs == [project.runs / "link", run, bad]
    told: list[Audit] = []
    audits = audit_all(here, runs, told.append)
    assert [found.run for found in audits] == runs
    assert len(told) == 3
    assert [found.exit_code for found in audits] == [1, 0, 1]
    assert "symbolic link" in differing(audits[0])
    document = record(audits)
    validate(document, "audit", "test")
    assert document["exit_code"] == 1
    assert runs_below(run) == [run]


@given(st.lists(st.sampled_from(Verdict)))
def test_exit_codes(verdicts: list[Verdict]) -> None:
    assert exit_code(verdicts) == (
        1 if Verdict.DIFFERS in verdicts else 2 * (Verdict.UNCHECKED in verdicts)
    )
    assert worst({0, 2}) == 2
    assert worst({0, 1, 2}) == 1
    assert worst({0}) == 0


@given(st.text(), st.text())
def test_no_claim_moves_a_terminal(name: str, why: str) -> None:
    claim = differs(name, why, expected=name, found={why: name})
    assert "".join(claim.record().values()).isprintable()


def test_a_machine_looks_once(project: Project) -> None:
    machine = Machine(project)
    asked: list[int] = []

    def look() -> None:
        asked.append(1)
        raise Refused("not there")

    for _ in range(2):
        with pytest.raises(Refused, match="not there"):
            machine._once("x", look)
    assert asked == [1]


def test_a_commit_near_the_pinned_one_is_never_called_the_pinned_one(
    here: Here, project: Project
) -> None:
    near = "5" * 40
    tree = project.data / "sources" / f"mdlm-{near}"
    tree.mkdir(parents=True)
    (tree / "main.py").write_text("")
    source = {"name": "mdlm", "commit": near, "pinned": commit(project, "mdlm")}
    identity = {
        "source": {**source, "tree": nar_sha256(tree)},
        "recipe": {},
        "adapters": here.adapters([]),
    }
    told = Recorded(here, project.root, {IDENTITY: identity}, {}, {}, datetime.now(UTC))
    found = {claim.name: claim for claim in pins.code(told)}
    assert found.pop("source commit").verdict is Verdict.UNCHECKED
    assert {claim.verdict for claim in found.values()} == {Verdict.HOLDS}
    identity["source"] |= {"pinned": "6" * 40}
    (tree / "main.py").write_text("changed")
    claims = pins.code(replace(told, machine=Here(project)))
    changed = {claim.name for claim in claims if claim.verdict is Verdict.DIFFERS}
    assert changed == {"source pin", "source tree"}

"""Audits: an untouched run holds wherever it lies; whatever is done to its files is named."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tampering
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_folders import BASE, SMOKE, Here, completed_run, forge, nested, reading, relist, rewrite

from harness import trees
from harness.audit import Audit, Machine, Verdict, audit, audit_all, core, pins, runs_below
from harness.audit.recorded import Recorded
from harness.audit.trees import record, worst
from harness.audit.verdicts import differs, exit_code
from harness.errors import Refused
from harness.folder import IDENTITY
from harness.nar import nar_sha256
from harness.plan import Choices
from harness.project import Project
from harness.report import gather, markdown
from harness.schemas import validate
from harness.sources import commit

__all__ = ["reading"]
SOURCE = Path(__file__).parents[1]
pytestmark = pytest.mark.usefixtures("reading")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(source=SOURCE, root=tmp_path / "root")


@pytest.fixture
def run(project: Project) -> Path:
    return completed_run(project)


@pytest.fixture
def here(project: Project) -> Here:
    return Here(project)


def differing(found: Audit) -> str:
    """All that an audit says of what differs, as one text."""
    return "\n".join(
        f"{c.name} | {c.expected} | {c.found} | {c.why}"
        for c in found.claims
        if c.verdict is Verdict.DIFFERS
    )


def test_an_untouched_run_holds(here: Here, run: Path) -> None:
    found = audit(here, run)
    assert {claim.verdict for claim in found.claims} == {Verdict.HOLDS}, differing(found)
    assert found.exit_code == 0
    validate(found.record(), "audit", "test")


def test_a_copy_elsewhere_holds(here: Here, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "a copy\x1b[31m")
    shutil.rmtree(run)
    found = audit(here, tmp_path / "a copy\x1b[31m")
    assert found.exit_code == 0
    assert "\x1b" not in json.dumps(found.record(), ensure_ascii=False)


@given(st.data())
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_changed_byte_is_named(here: Here, run: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([run / name for name in tampering.files(run)]))
    before = path.read_bytes()
    if before and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(before) - 1))
        other = before[at] ^ data.draw(st.integers(1, 255))
        after = before[:at] + bytes([other]) + before[at + 1 :]
    else:
        at = data.draw(st.integers(0, len(before)))
        after = before[:at] + data.draw(st.binary(min_size=1, max_size=3)) + before[at:]
    path.write_bytes(after)
    try:
        found = audit(here, run)
    finally:
        path.write_bytes(before)
    assert found.exit_code == 1
    assert path.relative_to(run).as_posix() in differing(found)


def test_every_byte_of_the_completion_record_counts(here: Here, run: Path) -> None:
    from harness.audit.recorded import _record

    path = run / "completed.json"
    before = path.read_bytes()
    for at in range(len(before)):
        path.write_bytes(before[:at] + bytes([before[at] ^ 1]) + before[at + 1 :])
        with pytest.raises((Refused, ValueError, RecursionError)):
            _record(path, "completed")
    path.write_bytes(before)
    _record(path, "completed")


@pytest.fixture
def deep(run: Path) -> Path:
    """A run whose trainer left what trainers leave: folders, event files, logs of its own."""
    for name in ("tensorboard/version_0/events.out.tfevents.1.host.2.0", ".hydra/config.yaml"):
        (run / "output" / name).parent.mkdir(parents=True)
        (run / "output" / name).write_bytes(name.encode())
    relist(run)
    return run


def test_whatever_is_done_to_it_is_named(here: Here, deep: Path, tmp_path: Path) -> None:
    assert audit(here, deep).exit_code == 0
    copy, other = tmp_path / "copy", tmp_path / "other"
    shutil.copytree(deep, copy)
    for touch, name, change in tampering.all_of(deep):
        change(copy, other)
        found = audit(here, copy)
        assert found.exit_code == 1, (touch, name)
        assert name.as_posix() in differing(found), (touch, name)
        assert name.as_posix() == "completed.json" or "completed.json | " not in differing(found)
        tampering.restore(deep, copy, name, other)
    assert audit(here, copy).exit_code == 0


def test_modes_and_folders_times_are_no_claims(here: Here, deep: Path) -> None:
    """Neither survives a copy by every tool."""
    for path in deep.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1, 1))
    assert audit(here, deep).exit_code == 0


def test_a_tree_of_any_depth_is_audited(here: Here, run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    shutil.copytree(run, folder / run.name)
    for place in (folder, folder / run.name):
        nested(place, 1500)
    try:
        assert runs_below(folder) == [folder / run.name]
        found = audit(here, folder / run.name)
        assert [claim.why for claim in found.claims if claim.why] == ["is an empty folder"]
    finally:
        trees.remove(folder)


@pytest.mark.parametrize("name", ["x", ".hidden", "output/x", "output/checkpoints/e\x1b[1m\udcff"])
def test_an_added_file_is_named(here: Here, run: Path, name: str) -> None:
    (run / name).write_bytes(b"")
    found = audit(here, run)
    assert found.exit_code == 1
    told = differing(found)
    assert f"file {name}" in told if name.isprintable() else r"e\x1b[1m\udcff" in told
    json.dumps(found.record(), ensure_ascii=False).encode()


def test_two_files_swapped_are_both_named(here: Here, run: Path, tmp_path: Path) -> None:
    names = tampering.files(run)
    for one, two in pairwise(names):
        if (run / one).read_bytes() == (run / two).read_bytes():
            continue
        copy = tmp_path / f"{one.name} and {two.name}"
        shutil.copytree(run, copy)
        (copy / one).rename(tmp_path / "aside")
        (copy / two).rename(copy / one)
        (tmp_path / "aside").rename(copy / two)
        told = differing(audit(here, copy))
        for name in (one, two):
            # A completion record in another place vouches for nothing, so only it is named.
            assert name.as_posix() in told or "completed.json" in (one.name, two.name)


def test_added_names_are_told_one_by_one_up_to_a_bound(here: Here, run: Path) -> None:
    for number in range(1100):
        (run / f"x{number}").touch()
    found = audit(here, run)
    assert sum(claim.name.startswith("file x") for claim in found.claims) == 1000
    assert "100 more differ" in differing(found)


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


def taught(project: Project) -> tuple[Path, Path]:
    """A run and one distilled from it."""
    teacher = completed_run(project, Choices("flm", "lm1b", profile="smoke", name="teacher"))
    student = Choices(
        "fmlm", "lm1b", profile="smoke", teachers=(teacher / "model.ckpt",), name="student"
    )
    return teacher, completed_run(project, student)


def test_a_teachers_run_is_audited_with_it(here: Here, project: Project) -> None:
    teacher, student = taught(project)
    found = audit(here, student)
    assert found.exit_code == 0, differing(found)
    assert "teacher teacher: identity" in {claim.name for claim in found.claims}
    (teacher / "stdout.log").write_bytes(b"other")
    assert "teacher teacher: file stdout.log" in differing(audit(here, student))


def test_a_teacher_is_found_beside_a_moved_run(
    here: Here, project: Project, tmp_path: Path
) -> None:
    _, student = taught(project)
    shutil.move(project.runs, tmp_path / "moved")
    moved = tmp_path / "moved" / student.name
    found = audit(here, moved)
    assert found.exit_code == 0, differing(found)
    shutil.rmtree(tmp_path / "moved" / "teacher")
    found = audit(here, moved)
    assert found.exit_code == 2
    assert [c.name for c in found.claims if c.verdict is Verdict.UNCHECKED] == ["teacher"]


def test_a_teacher_that_is_no_run_cannot_be_vouched_for(here: Here, project: Project) -> None:
    alone = project.root / "alone.ckpt"
    teacher, _ = taught(project)
    shutil.copy(teacher / "model.ckpt", alone)
    other = Choices("fmlm", "lm1b", profile="smoke", teachers=(alone,), name="other")
    found = audit(here, completed_run(project, other))
    assert found.exit_code == 2
    assert [c.name for c in found.claims if c.verdict is Verdict.UNCHECKED] == ["teacher's run"]
    alone.write_bytes(b"x")
    assert "teacher | " in differing(audit(here, project.runs / "other"))


def claims(found: Audit) -> dict[str, Verdict]:
    return {claim.name: claim.verdict for claim in found.claims}


def naming(run: Path, *files: object, sha256: str = "0" * 64) -> Path:
    """Have the records of a run name `files` as its teachers."""
    taught = [
        {"family": f"f{number}", "sha256": sha256, "identity": None, "weights": "raw"}
        for number, _ in enumerate(files)
    ]
    if len(files) == 1:
        del taught[0]["family"]
    forge(
        run,
        lambda r: r.update(teacher=taught if len(files) > 1 else taught[0]),
        lambda r: r["paths"].update(teacher=[*map(str, files)] if len(files) > 1 else str(*files)),
    )
    return run


SECRET = b"a secret\n"


@pytest.mark.parametrize("kind", ["outside", "beside", "through a link", "a pipe", "relative"])
def test_no_file_is_read_at_a_runs_word(
    here: Here, run: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    shutil.move(run, tmp_path / "given" / run.name)
    given = tmp_path / "given"
    named = {
        "outside": secret,
        "beside": given / "secret",
        "through a link": here.project.root / "link" / "secret",
        "a pipe": here.project.root / "pipe",
        "relative": Path("../secret"),
    }[kind]
    (given / "secret").write_bytes(SECRET)
    (here.project.root / "link").symlink_to(tmp_path)
    os.mkfifo(here.project.root / "pipe")
    read: list[Path] = []
    monkeypatch.setattr("harness.audit.teachers.sha256_file", read.append)
    found = audit(here, naming(given / run.name, named))
    assert claims(found)["teacher"] is Verdict.UNCHECKED
    assert read == []


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/kcore", "/sys/kernel/profiling", "/dev/zero", "/dev/tty"]
)
def test_the_kernels_files_are_no_teachers(run: Path, path: str) -> None:
    everywhere = Here(Project(source=SOURCE, root=Path("/")))
    found = audit(everywhere, naming(run, path))
    assert claims(found)["teacher"] is Verdict.UNCHECKED


def test_a_file_that_is_another_is_not_told_by_its_digest(here: Here, run: Path) -> None:
    secret = here.project.root / "secret"
    secret.write_bytes(SECRET)
    found = audit(here, naming(run, secret))
    assert claims(found)["teacher"] is Verdict.DIFFERS
    assert hashlib.sha256(SECRET).hexdigest() not in json.dumps(found.record())
    assert "secret has other bytes than recorded" in differing(found)


def test_files_of_a_folder_that_taught_nobody_are_not_told(here: Here, run: Path) -> None:
    other = completed_run(here.project, replace(SMOKE, name="other"))
    (other / "diary").write_bytes(SECRET)
    assert "diary" not in json.dumps(audit(here, naming(run, other / "model.ckpt")).record())


@pytest.mark.parametrize("path", ["/" + "a" * 5000, "a/" * 3000, "a\0b", ""])
def test_a_path_that_can_be_no_files_is_one_line_and_others_go_on(
    here: Here, run: Path, path: str
) -> None:
    other = completed_run(here.project, replace(SMOKE, name="other"))
    naming(run, path)
    audits = audit_all(here, [run, other], lambda _: None)
    assert claims(audits[0])["teacher"] is Verdict.UNCHECKED
    assert audits[1].exit_code == 0
    assert all(len(claim.why) <= 1000 for found in audits for claim in found.claims)
    assert "other" in markdown(gather(here.project, audits))


@pytest.mark.timeout(60)
def test_a_teacher_of_holes_is_not_hashed(here: Here, run: Path) -> None:
    holes = here.project.root / "holes"
    with holes.open("wb") as file:
        file.truncate(1 << 43)
        file.write(b"x")
    assert "is made of holes" in differing(audit(here, naming(run, holes)))


def pile(project: Project, depth: int) -> Path:
    """Runs that were each taught twice by the next one's result; the first of them."""
    runs = []
    for number in range(depth):
        at = completed_run(project, replace(SMOKE, name=f"run{number}"), weights=(1.0, number))
        runs.append(at)
    for below, above in reversed([*pairwise(runs)]):
        file = above / "model.ckpt"
        naming(below, file, file, sha256=hashlib.sha256(file.read_bytes()).hexdigest())
    return runs[0]


def test_a_run_that_taught_many_times_is_audited_once(
    here: Here, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, audited = pile(project, 5), []
    real = core._audit
    monkeypatch.setattr(core, "_audit", lambda *a: (audited.append(a[1]), real(*a))[1])
    found = audit(here, first)
    assert [run.name for run in audited] == [f"run{number}" for number in range(5)]
    assert "teacher run1: teacher run2: identity" in claims(found)
    monkeypatch.setattr(core, "MOST_TEACHERS", 2)
    assert "over 2 runs of teachers are not followed" in json.dumps(audit(here, first).record())
    monkeypatch.setattr("harness.report.page.MOST_TEACHERS", 2)
    assert len(gather(project, [found]).runs[0].teachers) == 4


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


def test_times_of_another_clock_are_allowed_for(here: Here, run: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    rewrite(run / "completed.json", lambda r: r.update(completed=soon))
    assert audit(here, run).exit_code == 0


def back(record: dict[str, Any], what: str, seconds: int) -> None:
    """Set a time of a record back by so many seconds."""
    of = record["attempts"][-1] if "attempts" in record else record
    when = datetime.strptime(of[what], "%Y-%m-%dT%H:%M:%SZ") - timedelta(seconds=seconds)
    of[what] = when.strftime("%Y-%m-%dT%H:%M:%SZ")


SET_BACK = {
    "ended": ("provenance.json", "provenance.json: attempt 1 ended"),
    "completed": ("completed.json", "completed.json: completed"),
}


@pytest.mark.parametrize("what", SET_BACK)
def test_a_clock_that_was_set_back_far_leaves_the_times_unchecked(
    here: Here, run: Path, what: str
) -> None:
    name, told = SET_BACK[what]
    rewrite(run / name, lambda r: back(r, what, 86_400))
    relist(run)
    found = audit(here, run)
    assert found.exit_code == 2, differing(found)
    (claim,) = [c for c in found.claims if c.verdict is Verdict.UNCHECKED]
    assert claim.name == "order of times"
    assert told in claim.why
    assert "set back, or the record was made up" in claim.why
    # It excuses nothing else.
    later = datetime.now(UTC).timestamp() + 86_400
    os.utime(run / "stdout.log", (later, later))
    assert "stdout.log is dated" in differing(audit(here, run))


def test_a_clock_that_was_set_right_by_seconds_is_remarked(here: Here, run: Path) -> None:
    rewrite(run / "provenance.json", lambda r: back(r, "ended", 37))
    relist(run)
    found = audit(here, run)
    assert found.exit_code == 0, differing(found)
    (claim,) = [c for c in found.claims if c.name == "order of times"]
    assert "set back by 3" in claim.found


def test_a_time_to_come_differs_also_where_the_clock_was_set_back(here: Here, run: Path) -> None:
    rewrite(run / "provenance.json", lambda r: r["attempts"][-1].update(
        started="2999-01-01T00:00:00Z"))  # fmt: skip
    relist(run)
    told = differing(audit(here, run))
    assert "attempt 1 started 2999-01-01T00:00:00Z, later than now" in told
    assert "before provenance.json: attempt 1 started" in told


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

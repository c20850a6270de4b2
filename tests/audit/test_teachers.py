"""A teacher is audited with its student; no file is read at the word of a run."""

import hashlib
import json
import os
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from run_folders import (
    SMOKE,
    Here,
    claims,
    completed_run,
    differing,
    forge,
)

from harness.audit import Verdict, audit, audit_all, core
from harness.plan import Choices
from harness.project import Project
from harness.report import gather, markdown

SOURCE = Path(__file__).parents[2]


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

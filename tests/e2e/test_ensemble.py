"""An ensemble as a user makes it: four teachers, a student, again, audited, changed, reported."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import harness

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
TRAIN = ("train", "ensemble-geo-v42", "jaweb", "--profile", "smoke")
STUDENT = "ensemble-geo-v42-jaweb-smoke-seed42"
TWINS = [f"twin-{member}-jaweb-smoke-seed42" for member in ("v42", "s1", "s2", "s3")]
GIVEN = [word for twin in TWINS for word in ("--teacher", f"runs/{twin}")]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A root with four teachers' and a student's completed runs."""
    root = tmp_path_factory.mktemp("ensemble")
    harness(root, *TRAIN, "--with-teacher")
    yield root
    shutil.rmtree(root)


def test_the_student_is_linked_to_four_teachers(chain: Path) -> None:
    identity = json.loads((chain / "runs" / STUDENT / "identity.json").read_text())
    found = {one["family"]: one["identity"] for one in identity["teacher"]}
    for name in TWINS:
        done = json.loads((chain / "runs" / name / "completed.json").read_text())
        assert found[name.removesuffix("-jaweb-smoke-seed42")] == done["identity_sha256"]
    assert len(set(found.values())) == 4


def test_the_chain_again_is_skipped(chain: Path) -> None:
    assert harness(chain, *TRAIN, "--with-teacher").stdout.count("skipped") == 5
    assert "skipped" in harness(chain, *TRAIN, *GIVEN).stdout


def test_the_other_pool_learns_from_the_same_teachers(chain: Path) -> None:
    harness(chain, "train", "ensemble-mix-s1", "jaweb", "--profile", "smoke", *GIVEN)
    output = chain / "runs" / "ensemble-mix-s1-jaweb-smoke-seed42" / "output"
    summary = json.loads((output / "summary.json").read_text())
    assert summary["status"] == "smoke_complete"
    assert {"last", "best-lm", "epoch-1"} <= set(summary["checkpoints"])


def test_the_audit_covers_every_teacher(chain: Path) -> None:
    run = str(chain / "runs" / STUDENT)
    done = harness(chain, "audit", run, "--json")
    claims = json.loads(done.stdout)["claims"]
    assert {claim["verdict"] for claim in claims} == {"holds"}
    names = {claim["name"] for claim in claims}
    assert {f"teacher {name}: tensors: state" for name in TWINS} <= names
    log = chain / "runs" / TWINS[2] / "stdout.log"
    before = log.read_bytes()
    log.write_bytes(before + b"x")
    found = json.loads(harness(chain, "audit", run, "--json", check=1).stdout)["claims"]
    wrong = [claim["name"] for claim in found if claim["verdict"] == "differs"]
    assert wrong == [f"teacher {TWINS[2]}: file stdout.log"]
    log.write_bytes(before)


def test_teachers_out_of_order_are_refused(chain: Path) -> None:
    turned = [*GIVEN[2:], *GIVEN[:2]]
    refused = harness(chain, *TRAIN, *turned, check=2)
    assert "is of family twin-s1; ensemble-geo-v42 needs twin-v42" in refused.stderr


def test_the_report_shows_the_run(chain: Path) -> None:
    page_file = chain / "report.html"
    harness(chain, "report", str(chain / "runs"), "-o", str(page_file), check=None)
    page = page_file.read_text()
    assert STUDENT in page
    assert all(name in page for name in TWINS)

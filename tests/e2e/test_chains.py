"""A distilled model with its teacher as a user makes them: trained, again, audited, changed."""

import json
from pathlib import Path

import pytest
import recorded
from command_line import harness

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
TEACHER = "mdlm-lm1b-smoke-seed42"
STUDENT = "mdlm_sdtt-lm1b-smoke-seed42"
TRAIN = ("train", "mdlm_sdtt", "lm1b", "--profile", "smoke")


@pytest.fixture(scope="session")
def chain(first: tuple[Path, str]) -> Path:
    """A root with a teacher's and a student's completed runs."""
    harness(first[0], *TRAIN, "--with-teacher")
    return first[0]


def completed(root: Path, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((root / "runs" / name / "completed.json").read_text())
    return found


def claims(root: Path, name: str, status: int) -> dict[str, str]:
    done = harness(root, "audit", str(root / "runs" / name), "--json", check=status)
    return {claim["name"]: claim["verdict"] for claim in json.loads(done.stdout)["claims"]}


def test_the_student_is_linked_to_its_teacher(chain: Path) -> None:
    identity = json.loads((chain / "runs" / STUDENT / "identity.json").read_text())
    teacher = completed(chain, TEACHER)
    assert identity["teacher"] == {
        "identity": teacher["identity_sha256"],
        "sha256": teacher["checkpoint"]["sha256"],  # type: ignore[index]
        "weights": "raw",
    }
    homes = [path for path in (chain / "data" / "teachers").iterdir() if path.is_dir()]
    records = [json.loads((home / "provenance.json").read_text()) for home in homes]
    made = identity["transformation"]["output_sha256"]
    (record,) = (record for record in records if record["output_sha256"] == made)
    assert record["largest_difference"] <= 1e-9


def test_the_selected_round_is_the_result(chain: Path) -> None:
    checkpoint = completed(chain, STUDENT)["checkpoint"]
    assert checkpoint["step"] == 70  # type: ignore[index]
    assert checkpoint["from"] == "output/student_checkpoints/70.ckpt"  # type: ignore[index]


@pytest.mark.parametrize("name", [TEACHER, STUDENT])
def test_both_gave_what_is_recorded(chain: Path, name: str) -> None:
    recorded.check(chain / "runs" / name)


def test_the_chain_again_is_skipped(chain: Path) -> None:
    done = harness(chain, *TRAIN, "--with-teacher")
    assert done.stdout.count("skipped") == 2
    given = harness(chain, *TRAIN, "--teacher", f"runs/{TEACHER}")
    assert "skipped" in given.stdout


def test_the_audit_covers_the_chain(chain: Path) -> None:
    found = claims(chain, STUDENT, 0)
    assert set(found.values()) == {"holds"}
    assert {"adapted teacher", "teacher", f"teacher {TEACHER}: tensors: state"} <= set(found)
    log = chain / "runs" / TEACHER / "stdout.log"
    before = log.read_bytes()
    log.write_bytes(before + b"x")
    found = claims(chain, STUDENT, 1)
    assert found[f"teacher {TEACHER}: file stdout.log"] == "differs"
    assert found["adapted teacher"] == "holds"
    refused = harness(chain, *TRAIN, "--teacher", f"runs/{TEACHER}", "--seed", "1", check=2)
    assert "stdout.log has other bytes than recorded" in refused.stderr
    log.write_bytes(before)


def test_a_student_does_not_teach(chain: Path) -> None:
    refused = harness(chain, *TRAIN, "--teacher", f"runs/{STUDENT}", check=2)
    assert "a mdlm_sdtt run can teach nothing" in refused.stderr

"""The page on security names tests that exist, and every hostile test."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs/security.md").read_text()


def test_the_page_and_the_hostile_tests_name_each_other() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    files = (
        *("test_sandbox_hostile.py", "test_sandbox.py", "test_seccomp.py", "test_limits.py"),
        *(
            "audit/test_teachers.py",
            "audit/test_claims.py",
            "test_folder.py",
            "test_checkpoint.py",
            "test_schemas.py",
        ),
        *("test_finished_cli.py", "test_evaluation.py", "test_export.py"),
        *("faults/test_hostile_upstream.py", "faults/test_secrets.py", "fuzz/test_inputs.py"),
    )
    written = {
        f: set(re.findall(r"^def (test_\w+)", (TESTS / f).read_text(), re.MULTILINE)) for f in files
    }
    assert named <= set().union(*written.values())
    assert written["test_sandbox_hostile.py"] <= named


def test_the_page_names_every_attempt_of_the_hostile_upstream() -> None:
    text = (TESTS / "faults/hostile.py").read_text()
    written = set(re.findall(r"^def (\w+)", text, re.MULTILINE)) - {
        "finish",
        "folders",
        "interrupted",
    }
    section = PAGE.partition("## What a hostile upstream")[2].partition("\n## ")[0]
    assert written <= set(re.findall(r"`(\w+)`", section))

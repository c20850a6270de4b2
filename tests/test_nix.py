"""A lock that cannot be followed is refused by name; nothing is built for it."""

from pathlib import Path

import pytest

from harness import nix
from harness.errors import Refused
from harness.project import Project


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "smoke.json: extends: no list of locks"),
        ("[]", "smoke.json: extends: no list of locks"),
        ("{}", "smoke.json: extends: no list of locks"),
        ('{"extends": 1}', "smoke.json: extends: no list of locks"),
        ('{"extends": ["smoke"]}', "extends: smoke extends itself"),
        ('{"extends": ["other"]}', "extends: smoke extends itself"),
        (
            '{"extends": ["nowhere"]}',
            "environment nowhere: no lock of it in envs",
        ),
        ('{"extends": ["../smoke"]}', "no lock of it"),
    ],
)
def test_a_lock_that_cannot_be_followed_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/build.json").write_text('{"extends": []}')
    (tmp_path / "envs/other.json").write_text('{"extends": ["smoke"]}')
    (tmp_path / "envs/smoke.json").write_text(text)
    with pytest.raises(Refused, match=said) as caught:
        nix.lock_sha256(Project(source=tmp_path, root=tmp_path), "smoke")
    assert "\n" not in str(caught.value)

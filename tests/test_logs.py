"""A log keeps the newest of what is said, in bounded space, over attempts and rotations."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import Refused
from harness.logs import Log, before

NOTE = b"harness: continued from log.1\n"


def test_it_is_appended_to(tmp_path: Path) -> None:
    for word in (b"one\n", b"two\n"):
        with Log(tmp_path / "log") as log:
            log.write(word)
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    assert not before(tmp_path / "log").exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(blocks=st.lists(st.binary(min_size=1, max_size=40), max_size=30), most=st.integers(31, 60))
def test_the_newest_is_kept_and_no_more_than_the_bound(
    tmp_path: Path, blocks: list[bytes], most: int
) -> None:
    path = tmp_path / "log"
    for old in tmp_path.iterdir():
        old.unlink()
    for block in blocks:  # an attempt each
        with Log(path, most) as log:
            log.write(block)
    said = b"".join(blocks)
    now = path.read_bytes() if path.exists() else b""
    older = before(path).read_bytes() if before(path).exists() else b""
    kept = older.removeprefix(NOTE) + now.removeprefix(NOTE)
    assert said.endswith(kept)
    assert max(len(now), len(older)) <= most + 40
    assert kept == said or len(kept) > most - len(NOTE)


@pytest.mark.parametrize("name", ["log", "log.1"])
def test_a_link_is_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / name).symlink_to("elsewhere")
    if name == "log":
        with pytest.raises(Refused):
            Log(tmp_path / "log")
    else:
        with Log(tmp_path / "log", 3) as log:
            log.write(b"long")
        assert before(tmp_path / "log").read_bytes() == b"long"
    assert (tmp_path / "elsewhere").read_text() == "mine"

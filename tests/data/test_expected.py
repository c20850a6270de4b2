"""A file's digest: of its pin, else of the first fetch, by its whole name."""

from pathlib import Path

import pytest

from harness.data.downloads import Downloads, FetchedFile
from harness.data.expected import Expected
from harness.data.places import Places
from harness.errors import Refused

PINNED, FETCHED, OTHER = ("1" * 64, "2" * 64, "3" * 64)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "data")


def expected(places: Places, pinned: dict[str, str | None], fetched: dict[str, str]) -> Expected:
    folder = places.snapshot("dataset", "a/b", "0" * 40)
    below = folder.relative_to(places.data).as_posix()
    files = {f"{below}/{name}": sha256 for name, sha256 in fetched.items()}
    record = {path: FetchedFile(path, 1, sha256) for path, sha256 in files.items()}
    Downloads(files=record).publish(places.downloads)
    return Expected.read(places, folder, pinned)


def test_the_pin_comes_first(places: Places) -> None:
    found = expected(places, {"a": PINNED, "b": None}, {"a": FETCHED, "b": FETCHED, "c": OTHER})
    assert [found.sha256(name) for name in "abc"] == [PINNED, FETCHED, OTHER]


@pytest.mark.parametrize("name", ["train/a.txt", "a.txt", "test/a.txt/b"])
def test_a_name_is_no_other_file_of_that_name(places: Places, name: str) -> None:
    found = expected(places, {"test/a.txt": PINNED}, {"x/a.txt": FETCHED})
    assert found.find(name) is None
    with pytest.raises(Refused, match=f"{name}: no record of its digest; fetch it again"):
        found.sha256(name)


def test_without_a_record_only_pins_count(places: Places, tmp_path: Path) -> None:
    found = Expected.read(places, tmp_path / "data" / "raw", {"a": PINNED, "b": None})
    assert (found.find("a"), found.find("b"), found.find("c")) == (PINNED, None, None)

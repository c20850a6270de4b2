"""Names that come from elsewhere: what may become a path, a digest, a size."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data import names

ODD = st.text(alphabet="a./\\\n\0\x1b~é") | st.text()


@given(ODD)
def test_a_path_stays_in_its_folder_whatever_it_is(text: str) -> None:
    if names.is_path(text):
        assert os.path.normpath(f"/folder/{text}") == f"/folder/{text}"
        assert Path("/folder", text) != Path("/folder")
        assert text.encode() and "\n" not in text


@pytest.mark.parametrize(
    "value", [None, 1, b"a", ["a"], "\ud800", "a" * 241, "é" * 121, "a\n/../b"]
)
def test_what_is_no_path(value: object) -> None:
    assert not names.is_path(value)


@pytest.mark.parametrize("value", [None, 0, "0" * 39, "0" * 39 + "\n", "A" * 40, "../" + "0" * 37])
def test_what_is_no_digest(value: object) -> None:
    assert names.is_hex("0a" * 20, 40)
    assert not names.is_hex(value, 40)


@pytest.mark.parametrize("value", [None, -1, 1.0, True, "1", 1 << 53])
def test_what_is_no_size(value: object) -> None:
    assert names.is_size(0)
    assert not names.is_size(value)


@pytest.mark.parametrize(
    "value", ["", "a b", "a/../b\n", "a\n", "../x", "a/b", "https://h/a", None]
)
def test_what_is_no_key(value: object) -> None:
    assert names.is_key("gpt2-large_1.0")
    assert not names.is_key(value)


@pytest.mark.parametrize(
    "value", ["", "a b", "a/b/c", "a/b\n", "../x", "https://h/a/b", "a/", None]
)
def test_what_is_no_repository(value: object) -> None:
    assert names.is_repo("gpt2")
    assert names.is_repo("owner/gpt2")
    assert not names.is_repo(value)

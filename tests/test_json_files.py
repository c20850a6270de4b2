"""Records come back as published; what canonical JSON cannot hold is not read."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import json_files
from harness.canonical import canonical_json
from harness.errors import Refused

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 53) + 1, (1 << 53) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(value=JSON)
def test_json_comes_back_as_published(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    target = tmp_path_factory.mktemp("json") / "record.json"
    json_files.publish_json(target, value)
    assert json_files.read_json(target) == value
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b'{"b": 0, "%s": 1, "%s": 2}' % (b"a" * 9000, b"a" * 9000), "'a{30}' stands twice"),
        (b"[" + b"0," * 1_000_001 + b"0]", "over 1000000 values"),
        (b"[NaN]", "NaN is no JSON number"),
        (b"[" * 100_000, "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        ('{"a": 1}'.encode("utf-16"), "not valid JSON"),
        (b"[1e999]", "1e999 is too large a number"),
        (b"[-9007199254740992]", "-9007199254740992 is too large a whole number"),
        (b"[1" + b"0" * 5000 + b"]", "not valid JSON"),
        (b'["\\ud800"]', "not valid JSON"),
        (b'{"\\uDC00": 1}', "not valid JSON"),
    ],
)
def test_bad_json_is_refused_by_name(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(text)
    with pytest.raises(Refused, match=f"bad.json.*{said}"):
        json_files.read_json(path)


def test_all_that_canonical_json_holds_is_read(tmp_path: Path) -> None:
    path = tmp_path / "good.json"
    path.write_text('["\\ud83d\\ude00", "\\\\ud800", 9007199254740991, 1e300, -0.5]')
    value = ["\U0001f600", "\\ud800", (1 << 53) - 1, 1e300, -0.5]
    assert json_files.read_json(path) == value
    canonical_json(value)


def test_an_absent_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="gone.json: not found"):
        json_files.read_json(tmp_path / "gone.json")


@pytest.mark.timeout(60)
def test_a_key_that_stands_twice_at_the_end_of_many_is_found_in_one_pass(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"  # comparing each with each takes ten minutes
    path.write_text(f'{{{",".join(f"{json.dumps(str(n))}:0" for n in range(200_000))},"199999":0}}')
    with pytest.raises(Refused, match="'199999' stands twice"):
        json_files.read_json(path)

"""Blocks: together they are the split's documents, in order, whatever the files' division."""

import json
from pathlib import Path

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from harness.data import sources
from harness.data.pins import document_range
from harness.errors import Refused


def _texts(blocks: list[sources.Block]) -> list[str]:
    found: list[str] = []
    for block in blocks:
        texts = [text for some in block.texts() for text in some]
        assert len(texts) == block.documents
        found += texts
    return found


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(st.lists(st.text(max_size=20), min_size=1, max_size=30), min_size=1, max_size=3),
    group=st.integers(1, 9),
    block=st.integers(1, 400),
    large=st.integers(1, 400),
    start=st.none() | st.integers(-40, 40),
    stop=st.none() | st.integers(-40, 40),
)
def test_parquet_documents(
    tmp_path: Path, files: list[list[str]], group: int, block: int, large: int,
    start: int | None, stop: int | None,
) -> None:  # fmt: skip
    sources._opened.cache_clear()
    paths = []
    for number, texts in enumerate(files):
        paths.append(tmp_path / f"{number}.parquet")
        parquet.write_table(pyarrow.table({"text": texts}), paths[-1], row_group_size=group)
    expression = "train[{}:{}]".format(*("" if p is None else p for p in (start, stop)))
    everything = [text for texts in files for text in texts]
    wanted = [everything[i] for i in document_range(expression, len(everything))]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sources, "_BLOCK", block)
        patched.setattr(sources, "_TEXTS", 3)
        patched.setattr(sources, "_LARGE", large)
        assert _texts(sources.plan(paths, expression)) == wanted


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=20), max_size=30), block=st.integers(1, 400))
def test_line_documents(tmp_path: Path, texts: list[str], block: int) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sources, "_BLOCK", block)
        assert _texts(sources.plan([path], "train")) == texts


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"0000\.parquet: not there; fetch"):
        sources.plan([tmp_path / "0000.parquet"], "train")


def test_a_part_of_a_lines_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    with pytest.raises(Refused, match="takes whole files"):
        sources.plan([tmp_path / "a.jsonl"], "train[:1]")


def _table(column: str, values: list[object]) -> pyarrow.Table:
    return pyarrow.table({column: pyarrow.array(values)})


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("content", ["a"], "has no column text, but content"),
        ("text", ["a", None], "a text is null, or no string"),
        ("text", [1, 2], "a text is null, or no string"),
    ],
)
def test_a_parquet_without_all_its_texts_is_named(
    tmp_path: Path, column: str, values: list[object], message: str
) -> None:
    path = tmp_path / "odd.parquet"
    parquet.write_table(_table(column, values), path)
    with pytest.raises(Refused, match=rf"odd\.parquet: {message}"):
        _texts(sources.plan([path], "train"))


@pytest.mark.parametrize("at", [10, -10])
def test_a_parquet_that_cannot_be_read_is_named(tmp_path: Path, at: int) -> None:
    """Spoilt at its beginning the pages are unreadable, at its end the footer."""
    path = tmp_path / "spoilt.parquet"
    parquet.write_table(_table("text", [f"text {number}" for number in range(500)]), path)
    data = bytearray(path.read_bytes())
    data[at : at + 8 or None] = b"\xff" * 8
    path.write_bytes(data)
    with pytest.raises(Refused, match=r"spoilt\.parquet: no readable Parquet file"):
        _texts(sources.plan([path], "train"))


@pytest.mark.parametrize("line", ["{", "[]", "3", '{"other": "a"}', '{"text": null}', "\\xff"])
def test_a_line_without_a_text_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('{"text": "a"}\n' + line + "\n")
    with pytest.raises(Refused, match=r"odd\.jsonl: a (line|text) is"):
        _texts(sources.plan([path], "train"))

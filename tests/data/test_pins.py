"""The pins: published facts, split expressions, and files that are no pins."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data import pins
from harness.errors import Refused

SOURCE = Path(__file__).parents[2]
KNOWN = pins.load(SOURCE)


def test_published_facts() -> None:
    lm1b, owt = KNOWN.dataset("lm1b"), KNOWN.dataset("owt")
    assert lm1b.repo == "billion-word-benchmark/lm1b"
    assert lm1b.revision == "35161838ea9e05371a25a8db037f94fcae4c2064"
    assert lm1b.conversion == "8d52bfd3cc2819fc1166dbb8144c328e2690de3e"
    assert {s.name: (s.expression, s.documents) for s in lm1b.splits} == {
        "train": ("train", 30_301_028),
        "validation": ("test", 306_688),
    }
    assert lm1b.files == {
        "plain_text/test/0000.parquet": (
            "d3c7b4b2a48c24e9ae8353d6316dbac1453b08f2d870da9fa096c941e8f4cc8a"
        )
    }
    assert owt.repo == "Skylion007/openwebtext"
    assert owt.revision == "79d93d786212f7344586290adb811d4ae6a1762c"
    assert owt.shards == 80
    assert {s.name: s.expression for s in owt.splits} == {
        "train": "train[:-100000]",
        "validation": "train[-100000:]",
    }
    assert sum(split.documents for split in owt.splits) == 8_013_769
    assert (lm1b.processed, owt.processed) == ("lm1b-bert-128", "owt-gpt2-1024")
    archive = json.loads((SOURCE / "pins.json").read_text())["datasets"]["lm1b"]["archive"]
    assert archive["size"] == 1_792_209_805
    assert archive["sha256"].startswith("01ba60381110baf7")


@pytest.mark.parametrize(
    ("key", "revision", "ids"),
    [
        ("bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594", (30522, 101, 102)),
        ("gpt2", "607a30d783dfa663caf39e06633721c8d4cfcd7e", (50257, 50256, 50256)),
        ("gpt2-large", "32b71b12589c2f8d625668d2335a01cac3249519", (50257, 50256, 50256)),
    ],
)
def test_models(key: str, revision: str, ids: tuple[int, int, int]) -> None:
    model = KNOWN.model(key)
    assert model.revision == revision
    assert model.ids == pins.Ids(*ids)
    assert "config.json" in model.files


@given(st.integers(0, 300), st.none() | st.integers(-400, 400), st.none() | st.integers(-400, 400))
def test_expressions_are_pythons_slices(count: int, start: int | None, stop: int | None) -> None:
    text = "train[{}:{}]".format(*("" if part is None else part for part in (start, stop)))
    wanted = list(range(count))[start:stop]
    assert list(pins.document_range(text, count)) == wanted


def test_an_expression_that_is_none_is_refused() -> None:
    for text in ("train[5]", "train[:10%]", "train+test", ""):
        with pytest.raises(Refused, match="not understood"):
            pins.document_range(text, 10)


def test_names_resolve_by_profile() -> None:
    assert KNOWN.key("lm1b", "smoke") == "smoke-lm1b"
    assert KNOWN.key("lm1b", "paper") == "lm1b"
    assert KNOWN.key("smoke-owt", "paper") == "smoke-owt"
    with pytest.raises(Refused, match="dataset nothing: not pinned; one of lm1b"):
        KNOWN.key("nothing", "paper")
    with pytest.raises(Refused, match="model repository nothing: not pinned"):
        KNOWN.model("nothing")


def test_the_studys_stories_are_those_of_smoke_in_shorter_rows() -> None:
    study, smoke = KNOWN.dataset("study-owt"), KNOWN.dataset("smoke-owt")
    assert (study.files, study.generator) == (smoke.files, smoke.generator)
    assert (study.sequence_length, study.processed) == (256, "study-owt-gpt2-256")


def _broken(change: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((SOURCE / "pins.json").read_text())
    change(document)
    return document


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda d: d["datasets"]["owt"].update(revision="main"), "revision"),
        (lambda d: d["datasets"]["owt"]["files"].update({"../x": None}), "files"),
        (lambda d: d["datasets"]["owt"]["files"].update({"/x": None}), "files"),
        (lambda d: d["models"]["gpt2"].pop("eos"), "gpt2"),
        (lambda d: d["models"]["gpt2"].update(vocabulary=70000), "vocabulary"),
        (lambda d: d["datasets"]["owt"].update(repo="a/../b"), "repo"),
        (lambda d: d.update(extra=1), "extra"),
    ],
)
def test_files_that_are_no_pins_are_refused(tmp_path: Path, change: Any, field: str) -> None:
    (tmp_path / "pins.json").write_text(json.dumps(_broken(change)))
    with pytest.raises(Refused, match=field):
        pins.load(tmp_path)

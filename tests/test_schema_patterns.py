"""Patterns of all schemas: what they fit ends where it ends, and no path leaves its folder."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import schemas
from harness.data import names

FILES = sorted(Path(schemas.__file__).parent.glob("*.schema.json"))
HEX = {"^[0-9a-f]{40}$": "0" * 40, "^[0-9a-f]{64}$": "0" * 64}
GOOD = ["a", "a/b.c", ".a", "..a", "a..", "...", "a/...b", "train/*", "a[1].txt", "a b/é"]
OUT = ["", ".", "..", "/a", "../a", "a/..", "a/./b", "a/../b", "a//b", "a/", "a\\b"]
CONTROL = ["a\n", "a\n/../b", "\n/../b", "a\r", "a\0b", "a\x1b]0;b", "a\x7f", "a\x85"]


def _strings(value: Any) -> Iterator[dict[str, Any]]:
    """Every part of a schema that has a pattern."""
    if isinstance(value, dict):
        if isinstance(value.get("pattern"), str):
            yield value
        for inside in value.values():
            yield from _strings(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _strings(inside)


ALL = [
    (path.name.removesuffix(".schema.json"), part)
    for path in FILES
    for part in _strings(json.loads(path.read_bytes()))
]
PATHS = [(name, part) for name, part in ALL if r"\.\.?" in part["pattern"]]


def _fits(schema: str, part: dict[str, Any], text: str) -> bool:
    return bool(schemas._validator(schema).evolve(schema=part).is_valid(text))


def test_no_digest_has_more_after_its_end() -> None:
    digests = [(name, part) for name, part in ALL if part["pattern"] in HEX]
    assert len(digests) > 40
    for name, part in digests:
        text = HEX[part["pattern"]]
        assert _fits(name, part, text), name
        for other in (f"{text}\n", f"\n{text}", f"{text}0", text[1:], "../" + text[3:]):
            assert not _fits(name, part, other), (name, other)


@pytest.mark.parametrize("text", [*OUT, *CONTROL, "0\n", f"{'0' * 32}-a\n", "a0\n", "1_1\n"])
def test_what_a_pattern_ends_has_no_line_end_after(text: str) -> None:
    for name, part in ALL:
        if part["pattern"].endswith("$") and ".*" not in part["pattern"]:
            assert not (text.endswith("\n") and _fits(name, part, text)), (name, part)


def test_paths_stay_inside() -> None:
    assert {name for name, _ in PATHS} >= {"pins", "downloads", "processed"}
    for name, part in PATHS:
        assert all(_fits(name, part, text) for text in GOOD), name
        assert [text for text in OUT + CONTROL if _fits(name, part, text)] == [], name


def test_the_listing_of_a_hub_has_the_same_paths() -> None:
    assert all(map(names.is_path, GOOD))
    assert not any(map(names.is_path, OUT + CONTROL))

"""Schemas mean what JSON Schema says they do, and no file takes long to be refused by one."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness import schemas
from harness.errors import Refused
from harness.schemas import MOST_ERRORS, validate

IDENTITY = Path(__file__).parent / "golden" / "identity" / "v1.json"
FILES = sorted(Path(schemas.__file__).parent.glob("*.schema.json"))


@pytest.fixture
def identity() -> Any:
    return json.loads(IDENTITY.read_bytes())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_each_is_a_schema(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_bytes()))


def test_a_digest_ends_where_it_ends(identity: Any) -> None:
    identity["config_sha256"] += "\n"
    with pytest.raises(Refused, match="config_sha256: .* does not match"):
        validate(identity, "identity", "x")


@pytest.mark.parametrize("path", ["a\n/../../b", "../b", "/b", "a\n"])
def test_a_path_stays_inside(path: str) -> None:
    pins = schemas._validator("pins")
    check = pins.evolve(schema=pins.schema["$defs"]["path"])
    assert check.is_valid("a/b.txt")
    assert not check.is_valid(path)


@pytest.mark.timeout(60)
def test_items_of_all_kinds_are_compared_in_one_pass(identity: Any) -> None:
    identity["source"]["absent"] = ["a", *range(100_000), "a"]  # in pairs: hours
    with pytest.raises(Refused, match="absent"):
        validate(identity, "identity", "x")


def test_an_item_that_stands_twice_is_named(identity: Any) -> None:
    identity["source"]["absent"] = ["a" * 500, "b", "a" * 500]
    with pytest.raises(Refused, match=r'absent: "a{99} stands twice'):
        validate(identity, "identity", "x")


def test_of_endless_errors_some_are_looked_at(
    identity: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def best(errors: Iterable[Any]) -> Any:
        found = list(errors)
        seen.append(max(len(found), *(len(error.context) for error in found)))
        return found[0]

    monkeypatch.setattr("jsonschema.exceptions.best_match", best)
    identity["argv"] = [0] * 10_000
    with pytest.raises(Refused):
        validate(identity, "identity", "x")
    identity["argv"] = []
    identity["teacher"] = [0] * 10_000
    with pytest.raises(Refused):
        validate(identity, "identity", "x")
    assert max(seen) < 2 * MOST_ERRORS


def test_a_long_key_is_cut(identity: Any) -> None:
    identity["variables"] = {"A" * 100_000: 0}
    with pytest.raises(Refused) as refused:
        validate(identity, "identity", "x")
    assert len(str(refused.value)) < 1000


def test_nothing_a_recipe_fills_in_can_grow_without_end(identity: Any) -> None:
    recipe = identity["recipe"]
    recipe["tokenizer"]["name"] = "x" * 10_000
    with pytest.raises(Refused, match="tokenizer/name"):
        validate(identity, "identity", "x")
    recipe["tokenizer"]["name"] = "x"
    recipe["launched"] = ["{tokenizer}" * 10_000]
    with pytest.raises(Refused, match="launched/0"):
        validate(identity, "identity", "x")

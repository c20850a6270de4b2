"""A file that somebody else wrote is taken, or refused in a line; hypothesis tries many."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fuzz.target import SOURCE, Target
from fuzz.targets import TARGETS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = {
    "plans": 12,
    "recipes": 25,
    "identity": 12,
    "provenance": 12,
    "completed": 12,
    "submission": 25,
    "outcome": 25,
    "recipe": 6,
    "names": 12,
    "no crate": 12,
    "papers": 30,
}
ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([1 << 52, -(1 << 53) + 1, 1e308, -0.0, 0.5, 1e-320]),
    st.sampled_from(
        ["", "..", "/", "a/../../b", "{x}", "${x}", "\x1b[31m", "\n", "é", "0" * 64, "nan"]
    ),
    st.text(max_size=8),
    st.sampled_from([[], {}, [[]], [{}], {"": None}, [None], ["a", "a"], {"schema_version": 2}]),
)


def places(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON document."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [where, *(place for key, item in inner for place in places(item, (*where, key)))]


@st.composite
def changed(draw: st.DrawFn, seed: bytes) -> bytes:
    """A JSON document with a few of its values changed, left out or put elsewhere."""
    document = json.loads(seed)
    for _ in range(draw(st.integers(1, 3))):
        everywhere = places(document)
        place = draw(st.sampled_from(everywhere))
        if not place:
            continue
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        match draw(st.sampled_from(["set", "set", "drop", "swap", "add"])):
            case "drop":
                del holder[place[-1]]
            case "swap":
                value = document
                for key in draw(st.sampled_from(everywhere)):
                    value = value[key]
                holder[place[-1]] = json.loads(json.dumps(value))
            case "add" if isinstance(holder, dict):
                holder[draw(st.text(max_size=6))] = copy.deepcopy(draw(ODD))
            case _:
                holder[place[-1]] = copy.deepcopy(draw(ODD))
    return json.dumps(document).encode()


@st.composite
def damaged(draw: st.DrawFn, seed: bytes) -> bytes:
    """Bytes with a few of them changed, cut, put in or taken out."""
    data = bytearray(seed)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["set", "cut", "insert", "repeat"])):
            case "set" if data:
                data[at] = draw(st.integers(0, 255))
            case "cut":
                del data[at : at + draw(st.integers(1, 40))]
            case "insert":
                data[at:at] = draw(st.binary(max_size=12))
            case "repeat":
                data[at:at] = data[at : at + draw(st.integers(1, 60))]
    return bytes(data)


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_it_is_taken_or_refused_as_it_was(target: Target, scratch: Path) -> None:
    for number, seed in enumerate(target.seeds()):
        folder = scratch / f"seed-{target.name}-{number}"
        folder.mkdir()
        said = target.try_(seed, folder)
        assert (said is not None) is target.refused, said


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_a_changed_file_is_taken_or_refused(target: Target, scratch: Path) -> None:
    seeds = target.seeds()
    folder = scratch / target.name
    folder.mkdir(exist_ok=True)

    @settings(
        max_examples=EXAMPLES.get(target.name, 60),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def try_(data: st.DataObject) -> None:
        seed = data.draw(st.sampled_from(seeds))
        kind = changed(seed) if target.json and data.draw(st.integers(0, 3)) else damaged(seed)
        target.try_(data.draw(kind), folder)

    try_()


SECONDS = 120  # a bomb that is read in one pass takes some, another one hours
BOMBS = {
    "nest": "b'[' * (60 << 20)",
    "objects": "b'{\"a\":' * (10 << 20)",
    "empty lists": "b'[' + b'[],' * (5 << 20) + b'[]]'",
    "one string": "b'\"' + b'x' * (63 << 20) + b'\"'",
    "one number": "b'1' * (60 << 20)",
    "too large": "b'1' * (65 << 20)",
    "keys": "b'{' + b','.join(b'\"%d\":1' % n for n in range(300_000)) + b'}'",
    "the last key twice": (
        "b'{' + b','.join(b'\"%d\":1' % n for n in range(300_000)) + b',\"299999\":1}'"
    ),
    "one long key twice": "b'{\"%s\":0,\"%s\":1}' % ((b'a' * (30 << 20),) * 2)",
    "one long key": "b'{\"%s\":0}' % (b'a' * (60 << 20))",
    "one long text": "b'{\"seed\":\"%s\"}' % (b'a' * (60 << 20))",
    "one long fraction": "b'[0.' + b'1' * (60 << 20) + b']'",
    "items of all kinds": (
        "b'{\"source\":{\"absent\":[\"a\",' + b','.join(b'%d' % n for n in range(300_000)) + b']}}'"
    ),
    "items of a wrong kind": "b'{\"argv\":[' + b'0,' * 900_000 + b'0]}'",
    "teachers": "b'{\"teacher\":[' + b'{},' * 900_000 + b'{}]}'",
    "zeros": "bytes(60 << 20)",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_within_bounds(bomb: str, tmp_path: Path) -> None:
    code = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from pathlib import Path
from harness.errors import Refused
from harness.schemas import read_record
path = Path({str(tmp_path / "bomb")!r})
path.write_bytes({BOMBS[bomb]})
try:
    read_record(path, "identity")
except Refused as error:
    assert len(str(error)) < 1000
    print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=SOURCE, capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert done.stdout == "refused\n", done.stderr[-2000:]

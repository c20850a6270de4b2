"""Paths of tensors, and settings as JSON."""

import pytest

from harness.inside.data import Global, Inert, NumpyArray, OrderedMap
from harness.inside.refusal import Refusal
from harness.inside.tensors import DTYPES, Tensor, contiguous
from harness.inside.tree import plain, tensors


def one() -> Tensor:
    return contiguous((1,), DTYPES["uint8"], memoryview(b"x"))


def test_paths_of_every_kind_of_container() -> None:
    ordered = OrderedMap(w=one())
    ordered.attributes = {"_metadata": one()}
    inert = Inert("collections.deque", (one(),), {"s": one()}, [one()], [("k", one())])
    value = {
        "a/b~": one(),
        3: [one(), (one(),)],
        "o": ordered,
        "i": inert,
        "n": NumpyArray(one()),
        "plain": ["x", {1}, None],
    }
    assert sorted(tensors(value)) == [
        "3/0",
        "3/1/0",
        "a~1b~0",
        "i/__args__/0",
        "i/__elements__/0",
        "i/__pairs__/0/1",
        "i/__state__/s",
        "n",
        "o/__state__/_metadata",
        "o/w",
    ]


def test_places_are_as_wide_as_the_last() -> None:
    assert list(tensors([one()] * 11))[:2] == ["00", "01"]
    assert list(tensors([one()] * 10))[:2] == ["0", "1"]


def test_shared_tensors_stand_under_each_name_and_cycles_end() -> None:
    shared = {"w": one()}
    value: dict[object, object] = {"a": shared, "b": shared}
    value["self"] = value
    assert sorted(tensors(value)) == ["a/w", "b/w"]


def test_two_tensors_of_one_name_are_refused() -> None:
    with pytest.raises(Refusal, match="1: two tensors"):
        tensors({1: one(), "1": one()})


def test_a_tensor_under_another_key_is_refused() -> None:
    with pytest.raises(Refusal, match="under a key"):
        tensors({("a", 1): one()})
    assert tensors({("a", 1): [1]}) == {}


def test_structures_that_unfold_endlessly_are_refused() -> None:
    value: object = one()
    for _ in range(60):
        value = [value, value]
    with pytest.raises(Refusal, match="too many tensors"):
        tensors(value)
    harmless: object = "x"
    for _ in range(60):
        harmless = [harmless, harmless]
    assert tensors(harmless) == {}
    assert "too large" in str(plain(harmless))


def test_deep_structures_are_refused_only_where_tensors_are() -> None:
    deep: object = one()
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(Refusal, match="deep"):
        tensors(deep)
    empty: object = None
    for _ in range(5000):
        empty = [empty]
    assert tensors(empty) == {}
    assert "too deep" in str(plain(empty))


def test_an_array_without_content_is_refused() -> None:
    with pytest.raises(Refusal, match="without its content"):
        tensors([NumpyArray()])


def test_settings_as_json() -> None:
    node = Inert("omegaconf.nodes.AnyNode", (), {"_val": "${a}"})
    config = Inert("omegaconf.dictconfig.DictConfig", (), {"_content": {"b": node}})
    value = {
        "config": config,
        "path": Inert("pathlib.PosixPath", ("/", "a", "b")),
        "tokenizer": Inert("transformers.models.x.tokenization_x.X", (), {"vocab": {}}),
        "type": Global("typing.Any"),
        "map": Inert("collections.defaultdict", (), None, [], [(1, 2)]),
        "set": {2, 1},
        "inf": float("inf"),
        "w": one(),
        "bytes": b"abc",
        "none": None,
    }
    assert plain(value) == {
        "config": {"b": "${a}"},
        "path": "/a/b",
        "tokenizer": {"class": "transformers.models.x.tokenization_x.X"},
        "type": {"class": "typing.Any"},
        "map": {"1": 2},
        "set": [1, 2],
        "inf": "inf",
        "w": {"tensor": "uint8", "shape": [1]},
        "bytes": {"bytes": 3},
        "none": None,
    }

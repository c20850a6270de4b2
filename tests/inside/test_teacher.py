"""Adapted teachers: their rows, their probabilities, their bytes; and what is refused."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import teacher_files
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.inside import adapt, teacher
from harness.inside.adapt import BERT_MASK, NEVER, TRANSFORMATIONS, Adapted, Rows, check
from harness.inside.backbone import BIAS, EMBEDDING, ROTARY, WEIGHT, plain_name, weights
from harness.inside.formats import load
from harness.inside.refusal import Refusal

TABLE = (EMBEDDING, WEIGHT, BIAS)


def rows(vocabulary: int, hidden: int = 4, seed: int = 0, scale: float = 1.0) -> Rows:
    random = np.random.default_rng(seed)
    made = [random.normal(0, scale, (vocabulary, hidden)) for _ in range(2)]
    bias = random.normal(0, scale, vocabulary)
    return Rows(*(part.astype(np.float32) for part in (*made, bias)))


def parts(given: Rows) -> tuple[np.ndarray, ...]:
    return given.embedding, given.weight, given.bias


@given(st.integers(1, 150), st.booleans(), st.integers(0, 9))
def test_a_uniform_teacher_gets_a_last_row_of_zeros(base: int, padded: bool, seed: int) -> None:
    old = rows(base + padded, seed=seed)
    made = adapt.uniform_to_absorbing(old, base)
    for before, after in zip(parts(old), parts(made.rows), strict=True):
        assert len(after) == base + 1
        assert np.array_equal(after[:base], before[:base])
        assert not after[base].any()


@given(st.integers(BERT_MASK + 1, 150), st.integers(0, 9))
def test_a_masked_teachers_mask_becomes_the_last_row(base: int, seed: int) -> None:
    old = rows(base, seed=seed)
    made = adapt.masked_to_absorbing(old, base).rows
    for before, after in zip(parts(old), parts(made), strict=True):
        assert np.array_equal(after[base], before[BERT_MASK])
        kept = np.delete(np.arange(base), BERT_MASK)
        assert np.array_equal(after[kept], before[kept])
    assert not made.embedding[BERT_MASK].any()
    assert not made.weight[BERT_MASK].any()
    assert made.bias[BERT_MASK] == NEVER


def test_a_mask_that_is_last_already_stays(tmp_path: Path) -> None:
    old = rows(8)
    made = adapt.masked_to_absorbing(old, 7)
    assert made.mask == 7
    for before, after in zip(parts(old), parts(made.rows), strict=True):
        assert np.array_equal(before, after)


def log_softmax(row: list[float]) -> list[float]:
    """By the book, with exact sums."""
    top = max(row)
    total = math.log(math.fsum(math.exp(x - top) for x in row)) + top
    return [x - total for x in row]


@pytest.mark.parametrize(
    ("name", "size", "base"),
    [
        ("uniform_to_absorbing", 110, 110),
        ("uniform_to_absorbing", 111, 110),
        ("masked_to_absorbing", 110, 110),
        ("masked_to_absorbing", 111, 110),
    ],
)
@given(seed=st.integers(0, 50), scale=st.sampled_from([0.01, 1.0, 30.0]))
@settings(max_examples=10)
def test_every_tokens_probability_is_the_originals(
    name: str, size: int, base: int, seed: int, scale: float
) -> None:
    old = rows(size, seed=seed, scale=scale)
    made = TRANSFORMATIONS[name](old, base)
    assert check(old, made, base) <= 1e-9
    # The same by other arithmetic, at one hidden vector, suppressing as the trainers do.
    hidden = np.random.default_rng(seed + 1).normal(size=4)

    def logits(table: Rows, never: int | None) -> list[float]:
        found = [
            math.fsum((*(float(w) * h for w, h in zip(row, hidden, strict=True)), float(b)))
            for row, b in zip(table.weight, table.bias, strict=True)
        ]
        if never is not None:
            found[never] += NEVER
        return found

    masked = {"masked_to_absorbing": base if size > base else BERT_MASK}.get(name)
    before = log_softmax(logits(old, base if size > base else masked))
    after = log_softmax(logits(made.rows, base))
    for token in set(range(base)) - {masked}:
        assert before[token] == pytest.approx(after[token], abs=1e-9)
    assert math.exp(after[base]) == 0
    if masked is not None and masked < base:
        assert math.exp(after[masked]) == 0


def spoilt(
    change: Callable[[Rows], None], name: str = "masked_to_absorbing"
) -> tuple[Rows, Adapted]:
    old = rows(110)
    made = TRANSFORMATIONS[name](old, 110)
    change(made.rows)
    return old, made


def put(part: str, row: int, value: float) -> Callable[[Rows], None]:
    def change(given: Rows) -> None:
        getattr(given, part)[row] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("bias", BERT_MASK, 0),  # the mask's old token would compete at logit 0
        put("bias", 5, 0),
        put("bias", 110, 0),
        put("weight", 5, 0),
        put("weight", 110, 0),
        put("embedding", 5, 0),
        put("embedding", 110, 0),
    ],
)
def test_the_check_sees_a_wrong_row(change: Callable[[Rows], None]) -> None:
    with pytest.raises(Refusal, match="adapted teacher"):
        check(*spoilt(change), 110)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@pytest.mark.parametrize("size", [108, 109, 112, 113])
def test_another_vocabulary_is_refused(name: str, size: int) -> None:
    with pytest.raises(Refusal, match=f"{size} tokens"):
        TRANSFORMATIONS[name](rows(size), 110)


def test_a_small_vocabulary_without_a_mask_is_refused() -> None:
    with pytest.raises(Refusal, match="no mask state 103"):
        adapt.masked_to_absorbing(rows(50), 50)


@given(st.lists(st.just("_orig_mod."), max_size=3), st.booleans())
def test_prefixes_are_dropped(around: list[str], inner: bool) -> None:
    name = "".join(around) + ("backbone." if inner else "") + "vocab_embed.embedding"
    assert plain_name(name) == "vocab_embed.embedding"


def test_only_one_backbone_prefix_is_dropped() -> None:
    assert plain_name("backbone.backbone.x") == "backbone.x"
    assert plain_name("_orig_mod._orig_mod.backbone.x") == "x"
    assert plain_name("backbone._orig_mod.x") == "_orig_mod.x"


def test_two_names_that_become_one_are_refused(tmp_path: Path) -> None:
    state = teacher_files.arrays(110)
    state["_orig_mod.backbone.output_layer.linear.bias"] = state[BIAS]
    path = teacher_files.checkpoint(tmp_path / "t.ckpt", state, prefix="")
    with pytest.raises(Refusal, match=r"becomes output_layer\.linear\.bias too"):
        weights(load(path), "raw", 2)


def without(name: str) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda state: state.__delitem__(name)


def become(name: str, value: np.ndarray) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda state: state.__setitem__(name, value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (without("blocks.1.attn_qkv.weight"), "blocks.1.attn_qkv.weight is missing"),
        (without(EMBEDDING), "vocab_embed.embedding is missing"),
        (become("teacher.x", np.zeros(1, "<f4")), "teacher.x is no weight of the backbone"),
        (become("blocks.2.norm1.weight", np.zeros(1, "<f4")), "a backbone of 3 blocks"),
        (become(EMBEDDING, np.zeros(110, "<f4")), "1 dimensions, not 2"),
        (become(BIAS, np.zeros((110, 1), "<f4")), "2 dimensions, not 1"),
        (become(BIAS, np.zeros(109, "<f4")), "not one row a token"),
        (become(WEIGHT, np.zeros((110, 5), "<f4")), "not as wide"),
        (become(BIAS, np.full(110, np.nan, "<f4")), "not finite"),
        (become(BIAS, np.zeros(110, "<f8")), "float64; trainers keep"),
    ],
)
def test_what_is_no_such_backbone_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, np.ndarray]], None],
    why: str,
) -> None:
    state = teacher_files.arrays(110)
    change(state)
    path = teacher_files.checkpoint(tmp_path / "t.ckpt", state)
    assert run(path, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def run(source: Path, target: Path, kind: str = "raw", name: str = "masked_to_absorbing") -> int:
    words = ["--transformation", name, "--weights", kind, "--base", "110", "--blocks", "2"]
    return teacher.main([str(source), str(target), *words])


@pytest.mark.parametrize("kind", ["raw", "ema"])
def test_the_adapted_file_holds_the_chosen_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    state = teacher_files.arrays(110)
    source = teacher_files.checkpoint(tmp_path / "t.ckpt", state)
    assert run(source, tmp_path / "out", kind) == 0
    said = json.loads(capsys.readouterr().out)
    found = weights(load(tmp_path / "out"), "raw", 2)
    assert list(found) == list(state)
    for name in found.keys() - set(TABLE):
        shift = 1 if kind == "ema" and name != ROTARY else 0
        assert np.array_equal(found[name], state[name] + np.float32(shift)), name
    assert said.pop("largest_difference") <= 1e-9
    assert len(said.pop("keys_sha256")) == 64
    assert said == {
        "blocks": 2,
        "hidden_size": 4,
        "source_vocabulary": 110,
        "target_vocabulary": 111,
        "source_mask": BERT_MASK,
        "target_mask": 110,
    }


def test_a_checkpoint_without_the_constant_frequencies_is_adapted(tmp_path: Path) -> None:
    state = teacher_files.arrays(110)
    del state[ROTARY]
    source = teacher_files.checkpoint(tmp_path / "t.ckpt", state)
    assert run(source, tmp_path / "out") == 0
    assert ROTARY not in weights(load(tmp_path / "out"), "raw", 2)


@pytest.mark.parametrize(
    ("averages", "why"),
    [
        (lambda v: v[:-1], "averages for"),
        (lambda v: [*v, v[0]], "averages for"),
        (lambda v: v[::-1], "another shape"),
    ],
)
def test_averages_that_do_not_fit_are_refused(
    tmp_path: Path,
    averages: Callable[[list[np.ndarray]], list[np.ndarray]],
    why: str,
) -> None:
    state = teacher_files.arrays(110)
    values = averages([value for name, value in state.items() if name != ROTARY])
    path = teacher_files.checkpoint(tmp_path / "t.ckpt", state, averages=values)
    weights(load(path), "raw", 2)
    with pytest.raises(Refusal, match=why):
        weights(load(path), "ema", 2)


def test_equal_teachers_give_equal_bytes(tmp_path: Path) -> None:
    state = teacher_files.arrays(110)
    for number, prefix in enumerate(("backbone.", "_orig_mod.backbone.", "")):
        source = teacher_files.checkpoint(tmp_path / f"{number}.ckpt", state, prefix=prefix)
        assert run(source, tmp_path / f"{number}.out") == 0
    first, *others = [(tmp_path / f"{number}.out").read_bytes() for number in range(3)]
    assert others == [first, first]


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    source = teacher_files.checkpoint(tmp_path / "t.ckpt", teacher_files.arrays(110))
    (tmp_path / "out").write_bytes(b"mine")
    assert run(source, tmp_path / "out") == 2
    assert (tmp_path / "out").read_bytes() == b"mine"

"""Windows are whole sentences and cover the stores; the crop depends on three numbers only."""

import ensemble_runs
import numpy as np
import pytest
from ensemble import stores, windows
from ensemble.settings import Refusal
from hypothesis import given, settings
from hypothesis import strategies as st


def loaded(root):
    sha256 = ensemble_runs.settings(root, "x")["data"]["manifest_sha256"]
    return stores.load(root / "stores", sha256, ensemble_runs.CONTEXT, ensemble_runs.VOCABULARY)


@settings(max_examples=60, deadline=None)
@given(
    documents=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=8), min_size=1, max_size=8),
    context=st.integers(9, 30),
)
def test_windows_are_runs_of_whole_sentences_that_fit(documents, context) -> None:
    rows = [
        (length, 2 * length, int(number == len(document) - 1))
        for document in documents
        for number, length in enumerate(document)
    ]
    total = sum(length for length, *_ in rows)
    store = stores.Store("x", np.arange(total, dtype=np.uint16), np.array(rows, np.uint32))
    found = windows.index([store], context)
    bounds, document_of, at = {0}, {}, 0
    for number, document in enumerate(documents):
        for length in document:
            document_of[at] = number
            at += length
            bounds.add(at)
    starts, stops = found.starts.tolist(), (found.starts + found.targets).tolist()
    assert starts == [0, *stops[:-1]]
    assert stops[-1] == total
    assert set(starts) | set(stops) <= bounds
    assert found.targets.max() <= context
    assert found.characters.tolist() == (2 * found.targets).tolist()
    for start, stop in zip(starts, stops, strict=True):
        inside = {document_of[b] for b in bounds if start <= b < stop}
        assert len(inside) == 1
        following = next((b for b in sorted(bounds) if b > stop), None)
        if stop in document_of and document_of[stop] in inside:
            assert following - start > context  # the next sentence would not have fitted


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 52),
    epoch=st.integers(0, 19),
    targets=st.lists(st.integers(1, 128), min_size=1, max_size=50),
    minimum=st.integers(1, 128),
    probability=st.floats(0, 1),
    shuffle=st.randoms(use_true_random=False),
)
def test_a_crop_depends_only_on_seed_epoch_and_sample(
    seed, epoch, targets, minimum, probability, shuffle
) -> None:
    samples, lengths = np.arange(len(targets)) * 7, np.array(targets)
    found = windows.kept(seed, epoch, samples, lengths, probability, minimum)
    assert (np.minimum(minimum, lengths) <= found).all()
    assert (found <= lengths).all()
    order = np.array(shuffle.sample(list(range(len(targets))), len(targets)))
    again = windows.kept(seed, epoch, samples[order], lengths[order], probability, minimum)
    assert (again == found[order]).all()
    for n, one in enumerate(found):
        part = slice(n, n + 1)
        assert windows.kept(seed, epoch, samples[part], lengths[part], probability, minimum) == one


def test_crops_are_as_likely_as_asked_and_of_every_length() -> None:
    samples, lengths = np.arange(40_000), np.full(40_000, 20)
    found = windows.kept(5, 3, samples, lengths, 0.5, 11)
    assert (found < 20).mean() == pytest.approx(0.5 * 9 / 10, abs=0.01)
    counts = np.bincount(found)[11:20]
    assert counts.min() > 0.9 * counts.mean()
    for other in (
        windows.kept(6, 3, samples, lengths, 0.5, 11),
        windows.kept(5, 4, samples, lengths, 0.5, 11),
    ):
        assert (found != other).mean() > 0.4


def test_stores_are_pinned_byte_for_byte(root) -> None:
    loaded(root)
    with pytest.raises(Refusal, match="pinned by data.manifest_sha256 is 0000"):
        stores.load(root / "stores", "0" * 64, ensemble_runs.CONTEXT, ensemble_runs.VOCABULARY)
    with pytest.raises(Refusal, match="context is 16, the configuration's is 32"):
        sha256 = ensemble_runs.settings(root, "x")["data"]["manifest_sha256"]
        stores.load(root / "stores", sha256, 32, ensemble_runs.VOCABULARY)
    path = root / "stores" / "chat_validation" / "tokens.u16"
    whole = path.read_bytes()
    path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(Refusal, match=r"tokens.u16: sha256 \w+, the manifest says"):
        loaded(root)
    path.write_bytes(whole[:-2])
    with pytest.raises(Refusal, match="is not there with the"):
        loaded(root)

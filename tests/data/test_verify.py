"""Verification finds any altered byte, and rows that are not what the manifest promises."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_data import toy_work

from harness.data import arrow, manifest, prepare, verify
from harness.data.manifest import File, Manifest
from harness.data.places import Places
from harness.data.progress import silent
from harness.errors import Refused

NAME = "toy-bert-8"
TEXTS = ["the judge saw the boats ."] * 20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, toy_tokenizer: Path) -> Places:
    """One prepared set for the whole module: each test puts back what it spoils."""
    work = toy_work(
        tmp_path_factory.mktemp("verify"),
        toy_tokenizer,
        {"train": TEXTS, "validation": TEXTS[:5]},
    )
    prepare.prepare(work, silent)
    return work.places


def files(places: Places) -> list[Path]:
    return sorted(p for p in places.processed(NAME).rglob("*") if p.is_file())


def test_a_good_set_has_no_problem(made: Places) -> None:
    verdict = verify.verify(made, NAME, silent)
    assert verdict.problems == ()
    assert verdict.rows == sum(c.sequences for c in verdict.manifest.splits.values())


@given(st.data())
def test_any_single_altered_byte_is_found(made: Places, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(files(made)))
    good = path.read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    change = data.draw(st.integers(1, 255))
    try:
        path.write_bytes(good[:at] + bytes([good[at] ^ change]) + good[at + 1 :])
        assert any("digest differs" in line for line in verify.verify(made, NAME, silent).problems)
    finally:
        path.write_bytes(good)


@given(st.data())
def test_any_single_altered_byte_of_the_manifest_is_found_or_changes_its_digest(
    made: Places, data: st.DataObject
) -> None:
    path = made.manifest(NAME)
    good, digest = path.read_bytes(), manifest.read(path).sha256()
    at = data.draw(st.integers(0, len(good) - 1))
    change = data.draw(st.integers(1, 255))
    try:
        path.write_bytes(good[:at] + bytes([good[at] ^ change]) + good[at + 1 :])
        try:
            verdict = verify.verify(made, NAME, silent)
        except Refused:
            return
        same = manifest.read(path).sha256() == digest
        # White space and the time of writing are the only things that may differ unseen.
        assert verdict.problems or not same or at >= good.index(b'"created"') or good[at] in b" \n"
    finally:
        path.write_bytes(good)


def _shard(path: Path, ids: list[list[int]], mask: int = 1) -> None:
    writer = arrow.ShardWriter(path, 8)
    writer._mask[:] = mask
    writer.append(np.array(ids, np.uint16))
    writer.finish()


GOOD = [[101, 5, 5, 5, 5, 5, 5, 102]] * 4


@pytest.mark.parametrize(
    ("ids", "mask", "problem"),
    [
        ([[7, *GOOD[0][1:]], *GOOD[1:]], 1, "begin with BOS"),
        ([[*GOOD[0][:-1], 7], *GOOD[1:]], 1, "end with EOS"),
        ([[101, 60000, *GOOD[0][2:]], *GOOD[1:]], 1, "outside the vocabulary"),
        (GOOD[1:], 1, "3 rows"),
        (GOOD, 0, "mask is not all one"),
    ],
)
def test_rows_are_read_and_not_believed(
    tmp_path: Path, made: Places, ids: list[list[int]], mask: int, problem: str
) -> None:
    """The manifest's digests fit these files: only reading the rows shows the fault."""
    places = Places(tmp_path)
    folder = places.processed(NAME) / "train"
    folder.mkdir(parents=True)
    _shard(folder / "data-00000.arrow", ids, mask)
    arrow.write_folder_records(folder, "train", 8, ["data-00000.arrow"], "0" * 64)
    counts = manifest.SplitCounts(4, 4, 5, 102)
    known = manifest.read(made.manifest(NAME))
    found = Manifest(known.contract, {"train": counts}, (), known.created)
    found = replace(found, files=manifest.inventory(places.processed(NAME), {}))
    manifest.publish(places.manifest(NAME), found)
    problems = verify.verify(places, NAME, silent).problems
    assert any(problem in line for line in problems)


def test_samples_are_the_rows_text(made: Places, toy_tokenizer: Path) -> None:
    texts = verify.sample(made, NAME, toy_tokenizer, 2)
    assert next((split, row) for split, row, _ in texts) == ("train", 0)
    assert texts[0][2].startswith("[CLS] the judge saw the")
    assert {split for split, _, _ in texts} == {"train", "validation"}


def test_no_manifest_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not found"):
        verify.verify(Places(tmp_path), NAME, silent)


def test_a_file_that_is_no_arrow_stream_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(b"nothing of the kind")
    with pytest.raises(Refused, match=r"a\.arrow: no readable Arrow stream"):
        list(arrow.batches(tmp_path / "a.arrow", 8))


def test_rows_of_another_length_are_refused(tmp_path: Path) -> None:
    _shard(tmp_path / "a.arrow", GOOD)
    with pytest.raises(Refused, match="of length 9"):
        list(arrow.batches(tmp_path / "a.arrow", 9))


def test_the_folder_reads_as_pyarrow_reads_it(made: Places) -> None:
    path = arrow.shard_paths(made.processed(NAME) / "train")[0]
    with pyarrow.memory_map(str(path)) as source:
        table = pyarrow.ipc.open_stream(source).read_all()
    assert table.column_names == ["input_ids", "attention_mask"]
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert {feature["_type"] for feature in features.values()} == {"Sequence"}


def test_the_inventory_is_in_path_order(tmp_path: Path) -> None:
    for name in ("b/x", "a/z", "a.b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    known = {"b/x": File("b/x", 3, "f" * 64)}
    found = manifest.inventory(tmp_path, known)
    assert [file.path for file in found] == sorted(file.path for file in found)
    assert found[-1] == known["b/x"]

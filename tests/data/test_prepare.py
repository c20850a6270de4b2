"""Preparation: rows as the reference has them, the same bytes however the work was done."""

import hashlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.canonical import digest
from harness.data import arrow, detokenize, manifest, prepare, sources, stores, tokenise
from harness.data.prepare import Work
from harness.data.progress import silent
from harness.errors import HarnessError, Refused

MakeWork = Callable[..., Work]
WORDS = ["the", "judge", "boats", "saw", "Clara", ".", ",", '"', "$", "40", "unseen"]


def corpus(seed: int, count: int) -> list[str]:
    words = random.Random(seed)
    return [" ".join(words.choices(WORDS, k=words.randint(0, 12))) for _ in range(count)]


def tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def rows(work: Work, split: str) -> list[list[int]]:
    folder = work.places.processed(work.dataset.processed) / split
    found: list[list[int]] = []
    for path in arrow.shard_paths(folder):
        for ids, masks in arrow.batches(path, work.dataset.sequence_length):
            assert (masks == 1).all()
            found += ids.tolist()
    return found


def reference(work: Work, texts: list[str]) -> list[list[int]]:
    tokenizer = tokenise.load(work.tokenizer)
    stream: list[int] = []
    for text in texts:
        stream += tokenizer.encode(detokenize.lm1b(text), add_special_tokens=False).ids
        stream.append(102)
    inner = work.dataset.sequence_length - 2
    starts = range(0, len(stream) // inner * inner, inner)
    return [[101, *stream[start : start + inner], 102] for start in starts]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, batches and shards so small that a tiny corpus has many."""
    monkeypatch.setattr(sources, "_BLOCK", 300)
    monkeypatch.setattr(arrow, "BATCH_TOKENS", 64)
    monkeypatch.setattr(arrow, "SHARD_TOKENS", 256)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), max_size=30),
    length=st.integers(3, 12),
    block=st.integers(1, 2000),
    shard=st.integers(12, 300),
)
def test_rows_are_the_references_for_any_blocks_and_shards(
    make_work: MakeWork, texts: list[str], length: int, block: int, shard: int
) -> None:
    documents = [*texts, "the judge saw the boats .", "the boats saw Clara ."]  # a row at least
    work = make_work({"train": documents}, length=length)
    shutil.rmtree(work.places.data, ignore_errors=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sources, "_BLOCK", block)
        patched.setattr(arrow, "SHARD_TOKENS", shard)
        patched.setattr(arrow, "BATCH_TOKENS", max(12, shard // 2))
        made = prepare.prepare(work, silent)
    wanted = reference(work, documents)
    assert rows(work, "train") == wanted
    assert made.splits["train"].sequences == len(wanted)


@pytest.mark.usefixtures("small")
def test_bytes_do_not_depend_on_the_number_of_processes(make_work: MakeWork) -> None:
    documents = {"train": corpus(1, 300), "validation": corpus(2, 60)}
    trees, digests = [], []
    for processes in (1, 2, 3):
        work = make_work(documents, data=f"data{processes}", processes=processes)
        digests.append(prepare.prepare(work, silent).sha256())
        trees.append(tree(work.places.processed("toy-bert-8")))
    assert trees[0] == trees[1] == trees[2]
    assert len(set(digests)) == 1
    assert len([name for name in trees[0] if name.startswith("train/data-")]) > 5


class _Killer:
    """Kills its process before or after the n-th change to the disk."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def step(self) -> None:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*words: Any, **named: Any) -> Any:
            self.step()
            result = function(*words, **named)
            self.step()
            return result

        return wrapped


def _killed(work: Work, at: int) -> None:
    killer = _Killer(at)
    os.fsync = killer.wrap(os.fsync)  # type: ignore[assignment]
    for name in ("rename", "unlink", "mkdir"):
        setattr(Path, name, killer.wrap(getattr(Path, name)))
    shutil.rmtree = killer.wrap(shutil.rmtree)  # type: ignore[assignment]
    prepare.prepare(work, silent)


@pytest.mark.usefixtures("small")
def test_a_kill_at_any_step_is_gone_on_from(make_work: MakeWork) -> None:
    documents = {"train": corpus(3, 24), "validation": corpus(4, 8)}
    whole = make_work(documents, data="whole")
    wanted = prepare.prepare(whole, silent).sha256()
    context = multiprocessing.get_context("fork")
    work = make_work(documents, data="killed")
    for at in range(1, 10_000):
        shutil.rmtree(work.places.data, ignore_errors=True)
        child = context.Process(target=_killed, args=(work, at))
        child.start()
        child.join()
        assert prepare.prepare(work, silent).sha256() == wanted, at
        name = "processed/toy-bert-8"
        assert tree(work.places.data / name) == tree(whole.places.data / name), at
        assert sorted(p.name for p in (work.places.data / "processed").iterdir()) == ["toy-bert-8"]
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
    assert at > 30


@pytest.mark.usefixtures("small")
def test_finished_shards_are_not_made_again(
    make_work: MakeWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = make_work({"train": corpus(5, 120)})
    real, seen = tokenise.tokenise, 0

    def broken(*words: Any) -> bytes:
        nonlocal seen
        seen += 1
        if seen > 10:
            raise KeyboardInterrupt
        return real(*words)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(tokenise, "tokenise", broken)
        prepare.prepare(work, silent)
    partial = work.places.partial("toy-bert-8")
    before = {p.name: p.stat().st_mtime_ns for p in (partial / "train").glob("data-*.arrow")}
    assert len(before) > 2
    prepare.prepare(work, silent)
    done = work.places.processed("toy-bert-8") / "train"
    after = {path.name: path.stat().st_mtime_ns for path in done.glob("data-*.arrow")}
    kept = [name for name in before if before[name] == after[name]]
    assert len(kept) >= len(before) - 1
    assert rows(work, "train") == reference(work, corpus(5, 120))


def test_a_whole_set_is_reused_untouched(make_work: MakeWork) -> None:
    work = make_work({"train": corpus(6, 30)})
    first = prepare.prepare(work, silent)
    folder = work.places.processed(work.dataset.processed)
    times = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    assert prepare.prepare(work, silent) == first
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == times


@pytest.mark.parametrize("harm", ["remove", "shorten", "add", "manifest"])
def test_a_set_that_is_not_whole_is_made_anew(make_work: MakeWork, harm: str) -> None:
    work = make_work({"train": corpus(7, 30)})
    wanted = prepare.prepare(work, silent).sha256()
    folder = work.places.processed("toy-bert-8")
    shard = next(folder.glob("train/data-*.arrow"))
    if harm == "remove":
        shard.unlink()
    elif harm == "shorten":
        shard.write_bytes(shard.read_bytes()[:-1])
    elif harm == "add":
        (folder / "extra").write_text("x")
    else:
        work.places.manifest("toy-bert-8").write_text("{}")
    assert prepare.prepare(work, silent).sha256() == wanted
    assert manifest.differences(manifest.read(work.places.manifest("toy-bert-8")), folder) == []


def test_another_contract_makes_another_set(make_work: MakeWork) -> None:
    prepare.prepare(make_work({"train": corpus(8, 30)}), silent)
    longer = make_work({"train": corpus(8, 40)})
    prepare.prepare(longer, silent)
    assert rows(longer, "train") == reference(longer, corpus(8, 40))


def test_other_numbers_of_documents_than_pinned_are_refused(make_work: MakeWork) -> None:
    work = make_work({"train": corpus(9, 30)})
    with (work.raw / "train.jsonl").open("a") as file:
        file.write('{"text": "one more"}\n')
    with pytest.raises(Refused, match="31 documents, pinned are 30"):
        prepare.prepare(work, silent)


def test_a_split_without_a_row_is_refused(make_work: MakeWork) -> None:
    with pytest.raises(Refused, match="shorter than one row"):
        prepare.prepare(make_work({"train": ["the"]}, length=100), silent)


def _die(*_: object) -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def test_a_dead_worker_is_one_line(make_work: MakeWork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_BLOCK", 100)
    monkeypatch.setattr(tokenise, "_tokenise_here", _die)
    monkeypatch.setattr(tokenise, "get_context", lambda _: multiprocessing.get_context("fork"))
    with pytest.raises(HarnessError, match="a tokenising process died"):
        prepare.prepare(make_work({"train": corpus(10, 200)}, processes=2), silent)


@pytest.mark.parametrize("text", ["[]", "{", "1", '{"fingerprint": 1}', '{"fingerprint": FP}'])
def test_a_journal_that_is_none_is_begun_anew(make_work: MakeWork, text: str) -> None:
    work = make_work({"train": corpus(11, 30)})
    folder = work.places.partial(work.dataset.processed)
    folder.mkdir(parents=True)
    fingerprint = json.dumps(digest([work.contract, work.inputs]))
    (folder / "journal.json").write_text(text.replace("FP", f'{fingerprint}, "splits": [1]'))
    prepare.prepare(work, silent)
    assert rows(work, "train") == reference(work, corpus(11, 30))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("make", [prepare.prepare, stores.prepare])
def test_a_full_disk_names_what_was_written(
    make_work: MakeWork, make: Callable[..., object]
) -> None:
    work = make_work({"train": corpus(11, 400)}, length=16)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            make(work, silent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(work.places.partial(work.dataset.processed) / "train") in str(caught.value.filename)

"""The training cache: links, not copies; made anew when what it came from changes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.data import arrow, bridge, prepare, ready
from harness.data.bridge import Prepared
from harness.data.digests import Digests
from harness.data.prepare import Work
from harness.data.progress import silent
from harness.errors import Refused
from harness.project import Project

TEXTS = {"train": ["the judge saw the boats ."] * 9, "validation": ["a letter ."] * 9}


@pytest.fixture
def prepared(make_work: Callable[..., Work]) -> Prepared:
    work = make_work(TEXTS)
    return Prepared(work.places, work.dataset, work.model, prepare.prepare(work, silent))


def built(prepared: Prepared, layout: str) -> Path:
    return bridge.build(prepared, layout, Digests(prepared.places.digests))


def test_files_are_links_under_the_upstreams_names(prepared: Prepared) -> None:
    folder = built(prepared, "lightning")
    names = ["bridge.json", "toy_test_bs8.dat", "toy_train_bs8.dat"]
    assert sorted(path.name for path in folder.iterdir()) == names
    processed = prepared.places.processed("toy-bert-8")
    for split, name in (("train", "toy_train_bs8.dat"), ("validation", "toy_test_bs8.dat")):
        for path in arrow.shard_paths(folder / name):
            assert path.samefile(processed / split / path.name)
            assert all((masks == 1).all() for _, masks in arrow.batches(path, 8))


def test_where_no_link_can_be_made_the_file_is_copied(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def across(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(bridge.os, "link", across)
    folder = built(prepared, "lightning")
    processed = prepared.places.processed("toy-bert-8")
    copy = folder / "toy_train_bs8.dat" / "data-00000.arrow"
    original = processed / "train" / "data-00000.arrow"
    assert not copy.samefile(original)
    assert copy.read_bytes() == original.read_bytes()
    assert bridge.current(prepared, "lightning") == folder
    bridge.check(prepared, "lightning", Digests(prepared.places.digests))


def test_a_current_one_is_left_alone(prepared: Prepared) -> None:
    folder = built(prepared, "lightning")
    before = (folder.stat().st_ino, folder.stat().st_mtime_ns)
    built(prepared, "lightning")
    assert (folder.stat().st_ino, folder.stat().st_mtime_ns) == before


def test_another_manifest_makes_another_cache(
    prepared: Prepared, make_work: Callable[..., Work]
) -> None:
    built(prepared, "lightning")
    work = make_work({**TEXTS, "train": ["the letter ."] * 30})
    other = replace(prepared, dataset=work.dataset, manifest=prepare.prepare(work, silent))
    assert bridge.current(other, "lightning") is None
    folder = built(other, "lightning")
    assert bridge.current(other, "lightning") == folder
    assert bridge.current(prepared, "lightning") is None


@pytest.mark.parametrize("harm", ["remove", "shorten", "add", "record"])
def test_a_spoilt_one_is_made_anew(prepared: Prepared, harm: str) -> None:
    folder = built(prepared, "lightning")
    state = folder / "toy_train_bs8.dat" / "state.json"
    if harm == "remove":
        state.unlink()
    elif harm == "shorten":
        state.unlink()
        state.write_text("{}")
    elif harm == "add":
        (folder / "extra").write_text("x")
    else:
        (folder / "bridge.json").write_text("[]")
    assert bridge.current(prepared, "lightning") is None
    assert bridge.current(replace(prepared), "lightning") is None
    built(prepared, "lightning")
    assert bridge.current(prepared, "lightning") == folder


def test_a_manifest_of_another_dataset_or_length_is_refused(prepared: Prepared) -> None:
    for dataset in (
        replace(prepared.dataset, key="other"),
        replace(prepared.dataset, sequence_length=9),
    ):
        with pytest.raises(Refused, match="wanted is"):
            built(replace(prepared, dataset=dataset), "lightning")


def test_unknown_layouts_are_refused(prepared: Prepared) -> None:
    with pytest.raises(Refused, match="layout other: unknown; one of lightning, rdlm"):
        built(prepared, "other")
    with pytest.raises(Refused, match="RDLM is for lm1b only"):
        built(prepared, "rdlm")
    assert bridge.layouts(prepared.dataset) == ("lightning",)


def test_rdlm_finds_raw_text_and_tokenizer_by_bare_names(smoke: Project) -> None:
    folder = ready.training_cache(smoke, "smoke-lm1b", "rdlm")
    found = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert found == [
        "bert-base-uncased/config.json",
        "bert-base-uncased/special_tokens_map.json",
        "bert-base-uncased/tokenizer.json",
        "bert-base-uncased/tokenizer_config.json",
        "bert-base-uncased/vocab.txt",
        "bridge.json",
        "lm1b/test-00000.jsonl",
        "lm1b/train-00000.jsonl",
    ]
    raw = smoke.data / "raw" / "embedded" / "smoke-lm1b"
    assert (folder / "lm1b" / "test-00000.jsonl").samefile(raw / "validation.jsonl")


def test_a_kill_between_any_two_files_is_mended(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bridge._place
    for stop in range(1, 7):
        left = stop

        def broken(source: Path, target: Path) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
            real(source, target)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(bridge, "_place", broken)
            built(prepared, "lightning")
        assert bridge.current(prepared, "lightning") is None
    folder = built(prepared, "lightning")
    assert bridge.current(prepared, "lightning") == folder
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]

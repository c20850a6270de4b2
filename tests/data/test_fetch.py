"""The fetch command against a stand-in Hub: targets, disk, records, refusals."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from click.testing import CliRunner
from pyarrow import parquet
from stand_in_hub import Fault, Files, StandIn, serving

from harness.cli.main import group
from harness.data import downloads, fetch, pins
from harness.data.hub import Entry, Repository
from harness.data.places import Places
from harness.errors import HarnessError, Refused
from harness.project import Project

CONVERSION, REVISION, MODEL = "c" * 40, "a" * 40, "b" * 40
SOURCE = Path(__file__).parents[2]


def _parquet(texts: list[str]) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pyarrow.table({"text": texts}), sink)
    return sink.getvalue()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    data = {
        "plain_text/train/0000.parquet": _parquet(["one", "two"]),
        "plain_text/train/0001.parquet": _parquet(["three"]),
        "plain_text/test/0000.parquet": _parquet(["four"]),
        "elsewhere/0000.parquet": _parquet(["no"]),
    }
    tokenizer = {"tokenizer.json": b"{}", "vocab.txt": b"a\n", "model.safetensors": b"w" * 100}
    repositories = [
        Files("dataset", "owner/text", CONVERSION, data, frozenset(data)),
        Files("dataset", "owner/text", REVISION, {"README.md": b"# text\n", "x.bin": b"1"}),
        Files("model", "toy", MODEL, tokenizer, frozenset({"model.safetensors"})),
    ]
    with serving(StandIn(repositories)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        yield server


@pytest.fixture
def source(tmp_path: Path, hub: StandIn) -> Path:
    known = json.loads((SOURCE / "pins.json").read_text())
    sha256 = hub.repositories[0].sha256("plain_text/test/0000.parquet")
    lm1b = known["datasets"]["lm1b"]
    lm1b |= {"repo": "owner/text", "revision": REVISION, "conversion": CONVERSION}
    lm1b |= {"files": {"plain_text/test/0000.parquet": sha256}, "tokenizer": "toy", "models": []}
    lm1b["splits"]["train"]["documents"] = 3
    lm1b["splits"]["validation"]["documents"] = 1
    toy = {"kind": "hub", "revision": MODEL, "files": {"tokenizer.json": None, "vocab.txt": None}}
    toy |= {"weights": {"model.safetensors": None}, "vocabulary": 9, "bos": 1, "eos": 2}
    folder = tmp_path / "source"
    folder.mkdir()
    document = {"schema_version": 1, "datasets": {"text": lm1b}, "models": {"toy": toy}}
    (folder / "pins.json").write_text(json.dumps(document))
    return folder


def _fetch(source: Path, *words: str) -> str:
    project = Project(source=source, root=source.parent)
    result = CliRunner().invoke(
        group.get_command(None, "fetch"), words, obj=project, catch_exceptions=False
    )
    return result.output


def test_a_dataset_comes_with_its_tokenizer_and_is_recorded(source: Path) -> None:
    _fetch(source, "text")
    places = Places(source.parent / "data")
    record = downloads.read(places.downloads)
    assert record.datasets["text"].rows == {"train": 3, "validation": 1}
    assert record.datasets["text"].revision == REVISION
    assert record.datasets["text"].conversion == CONVERSION
    assert len(record.datasets["text"].cache_files["train"]) == 2
    assert record.models["toy"].revision == MODEL
    names = {Path(name).name for name in record.files}
    assert names == {"0000.parquet", "0001.parquet", "README.md", "tokenizer.json", "vocab.txt"}
    for file in record.files.values():
        assert (places.data / file.path).stat().st_size == file.size
    main = places.hub / "datasets--owner--text" / "refs" / "main"
    assert main.read_text() == CONVERSION
    assert not places.snapshot("model", "toy", MODEL).joinpath("model.safetensors").exists()


def test_weights_come_when_the_model_is_named(source: Path) -> None:
    _fetch(source, "toy")
    places = Places(source.parent / "data")
    assert (places.snapshot("model", "toy", MODEL) / "model.safetensors").is_file()


def test_a_dry_run_lists_every_target_and_writes_nothing(source: Path, hub: StandIn) -> None:
    before = sorted(source.parent.rglob("*"))
    listed = _fetch(source, "text", "--dry-run")
    for name in ("train/0000", "train/0001", "test/0000", "README.md", "vocab.txt"):
        assert name in listed
    assert "elsewhere" not in listed
    assert sorted(source.parent.rglob("*")) == before
    assert not [path for method, path, _, _ in hub.requests if "/resolve/" in path]


def test_a_second_fetch_gets_no_file_again(source: Path, hub: StandIn) -> None:
    _fetch(source, "text")
    hub.requests[:] = []
    _fetch(source, "text")
    assert not [path for _, path, _, _ in hub.requests if "/resolve/" in path or "/cdn/" in path]


def test_a_pinned_digest_that_is_not_the_hubs_is_refused_before_fetching(
    source: Path, hub: StandIn
) -> None:
    text = (source / "pins.json").read_text()
    pinned = hub.repositories[0].sha256("plain_text/test/0000.parquet")
    (source / "pins.json").write_text(text.replace(pinned, "0" * 64))
    with pytest.raises(Refused, match="pinned is 0000"):
        _fetch(source, "text")
    assert not (source.parent / "data").exists()


def test_a_small_file_with_another_digest_than_pinned_is_removed(source: Path) -> None:
    text = (source / "pins.json").read_text()
    (source / "pins.json").write_text(
        text.replace('"vocab.txt": null', f'"vocab.txt": "{"0" * 64}"')
    )
    with pytest.raises(Refused, match=r"vocab.txt: sha256 .* wanted is 0000"):
        _fetch(source, "text")
    places = Places(source.parent / "data")
    assert not (places.snapshot("model", "toy", MODEL) / "vocab.txt").exists()
    assert not places.downloads.exists()


def test_other_numbers_of_rows_are_refused(source: Path) -> None:
    text = (source / "pins.json").read_text()
    (source / "pins.json").write_text(text.replace('"documents": 3', '"documents": 4'))
    with pytest.raises(Refused, match="split train has 3 rows, pinned are 4"):
        _fetch(source, "text")


def test_a_pattern_that_fits_nothing_is_refused(source: Path) -> None:
    text = (source / "pins.json").read_text()
    (source / "pins.json").write_text(text.replace("plain_text/train/*", "moved/train/*"))
    with pytest.raises(Refused, match="no file fits moved/train"):
        _fetch(source, "text")


def test_after_a_fault_the_next_fetch_goes_on(source: Path, hub: StandIn) -> None:
    hub.faults = [Fault("get", status=500, times=1)]
    with pytest.raises(HarnessError, match="HTTP 500"):
        _fetch(source, "text")
    _fetch(source, "text")
    assert len(downloads.read(Places(source.parent / "data").downloads).files) == 6


@pytest.mark.parametrize(
    ("free", "override", "below", "used"),
    [(10, False, False, False), (10, True, False, False), (9, True, True, True)],
)
def test_the_disk_check_says_what_it_saw(
    tmp_path: Path, free: int, override: bool, below: bool, used: bool
) -> None:
    disk = fetch.check_disk(Places(tmp_path / "data"), 10, override=override, free=lambda _: free)
    assert disk == downloads.Disk(free, 10, below, override, used)


def test_too_little_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="make room, or give --allow-low-disk"):
        fetch.check_disk(Places(tmp_path), 10, override=False, free=lambda _: 9)


def test_openwebtext_needs_55_gib() -> None:
    assert pins.load(SOURCE).dataset("owt").required_free == 55 * 2**30


def test_an_embedded_dataset_is_not_fetched() -> None:
    with pytest.raises(Refused, match="nothing to fetch"):
        fetch.wanted(pins.load(SOURCE), ["smoke-lm1b"])


def test_what_is_there_already_does_not_count_as_remaining(tmp_path: Path) -> None:
    repository = Repository("model", "toy", MODEL)
    part = fetch.Wanted("toy", repository, ("a",), {})
    targets = [fetch.Target(part, Entry(name, 10, name * 40, None)) for name in "ab"]
    places = Places(tmp_path)
    blobs = places.hub / "models--toy" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / ("a" * 40)).write_bytes(b"x" * 10)
    (blobs / ("b" * 40 + ".incomplete")).write_bytes(b"x" * 4)
    assert fetch.remaining(places, targets) == 6


def test_the_record_reads_back_as_written(tmp_path: Path) -> None:
    disk = downloads.Disk(1, 2, True, True, True)
    dataset = downloads.FetchedDataset("r", REVISION, None, ("s",), {"t": 1}, {"t": ("f",)}, disk)
    model = downloads.Fetched("m", MODEL, "s")
    file = downloads.FetchedFile("f", 1, "0" * 64)
    record = downloads.Downloads({"d": dataset}, {"m": model}, {"r": model}, {"f": file})
    record.publish(tmp_path / "downloads.json")
    assert downloads.read(tmp_path / "downloads.json") == record
    with pytest.raises(Refused, match="observed_free"):
        replace(
            record, datasets={"d": replace(dataset, disk=replace(disk, observed_free=-1))}
        ).publish(tmp_path / "bad.json")
        downloads.read(tmp_path / "bad.json")

"""The fetch command against a stand-in Hub: targets, disk, records, refusals."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from click.testing import CliRunner
from pyarrow import parquet
from stand_in_hub import Fault, Files, StandIn, hurry, serving

from harness.cli.main import group
from harness.data import downloads, fetch, pins
from harness.data.hub import Entry, Hub, Repository
from harness.data.locking import only_one
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
    (folder / "upstreams.json").write_bytes((SOURCE / "upstreams.json").read_bytes())
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


def test_a_small_file_with_another_digest_than_pinned_gets_no_name(source: Path) -> None:
    text = (source / "pins.json").read_text()
    (source / "pins.json").write_text(
        text.replace('"vocab.txt": null', f'"vocab.txt": "{"0" * 64}"')
    )
    with pytest.raises(Refused, match=r"vocab.txt: the Hub has sha256 .* pinned is 0000"):
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


FAULTS = {
    "interrupted": ([Fault("get", cut=100, times=99)], "cannot be reached .* run again to go on"),
    "truncated": ([Fault("get", shorten=100, times=99)], "330 of 430 bytes came; run again"),
    "corrupted": ([Fault("get", corrupt=True)], "the Hub announced .* was removed, run again"),
    "stalled": ([Fault("get", cut=100, stall=2, times=99)], "cannot be reached .* run again"),
    "wrong revision": ([Fault("head", revision=MODEL)], "the Hub serves commit"),
    "nobody": ([Fault("list", status=401)], "HTTP 401, .*set HF_TOKEN"),
    "gated": ([Fault("head", status=403)], "HTTP 403, .*accept its terms"),
    "gone": ([Fault("get", status=404)], "HTTP 404, .*check repository, revision and file"),
    "too many": ([Fault("list", status=429, times=99)], "HTTP 429, .*wait some minutes"),
    "broken": ([Fault("list", status=500, times=99)], "HTTP 500, the Hub fails: run again"),
    "broken storage": ([Fault("get", status=500, times=99)], "HTTP 500, the Hub fails: run again"),
}


def _wrong_files(source: Path, hub: StandIn) -> list[Path]:
    """Files under a name of the snapshots whose bytes are not the served ones."""
    good = {data for repository in hub.repositories for data in repository.files.values()}
    found = (source.parent / "data" / "raw").rglob("snapshots/*/**/*")
    return [path for path in found if path.is_file() and path.read_bytes() not in good]


@pytest.mark.parametrize("name", FAULTS)
def test_after_any_fault_the_next_fetch_goes_on(
    source: Path, hub: StandIn, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    hub.faults, says = FAULTS[name]
    hub.faults = [replace(fault) for fault in hub.faults]
    with pytest.raises(HarnessError, match=says) as caught:
        _fetch(source, "text")
    assert "\n" not in str(caught.value)
    places = Places(source.parent / "data")
    assert _wrong_files(source, hub) == []
    assert not places.downloads.exists()
    assert not list(places.data.rglob("refs"))
    hub.faults = []
    assert "6 files, all as announced" in _fetch(source, "text")
    assert len(downloads.read(places.downloads).files) == 6
    assert _wrong_files(source, hub) == []


def test_a_slow_hub_is_waited_for(source: Path, hub: StandIn) -> None:
    hub.faults = [Fault("get", slow=0.3)]
    assert "6 files, all as announced" in _fetch(source, "text")


KILLED = """
from huggingface_hub import constants
constants.DOWNLOAD_CHUNK_SIZE = 1 << 18
from harness.cli.main import main
main()
"""


def test_a_killed_fetch_is_continued_by_the_next(source: Path, hub: StandIn) -> None:
    large = b"w" * (4 << 20)
    hub.repositories[2].files["model.safetensors"] = large
    hub.faults = [Fault("get"), Fault("get"), Fault("get", slow=0.02)]
    command = [sys.executable, "-c", KILLED, "--root", str(source.parent), "fetch", "toy"]
    environment = {**os.environ, "HARNESS_SOURCE": str(source), "PYTHONPATH": str(SOURCE)}
    child = subprocess.Popen(command, env=environment)
    blobs = Places(source.parent / "data").hub / "models--toy" / "blobs"
    part = blobs / f"{hub.repositories[2].sha256('model.safetensors')}.incomplete"
    while not (part.exists() and part.stat().st_size >= 1 << 20):
        assert child.poll() is None
        time.sleep(0.02)
    child.kill()
    child.wait()
    had = part.stat().st_size
    hub.requests[:] = []
    _fetch(source, "toy")
    ranges = [ranged for _, path, _, ranged in hub.requests if "/cdn/" in path and ranged]
    assert ranges == [f"bytes={had}-"]
    snapshot = Places(source.parent / "data").snapshot("model", "toy", MODEL)
    assert (snapshot / "model.safetensors").read_bytes() == large


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


def test_processes_record_at_once_without_losing_anything(tmp_path: Path) -> None:
    places, known = Places(tmp_path / "data"), pins.load(SOURCE)
    disk = downloads.Disk(1, 1, False, False, False)
    children = []
    for number in range(6):
        if (child := os.fork()) == 0:
            try:
                name = f"f{number}"
                files = {name: downloads.FetchedFile(name, number, "0" * 64)}
                part = fetch.Wanted(name, Repository("model", name, MODEL), (), {})
                fetch.record(places, known, files, [part], disk)
                os._exit(0)
            except BaseException:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    record = downloads.read(places.downloads)
    assert len(record.files) == len(record.models) == 6


def test_a_second_fetch_at_the_same_time_is_refused(source: Path) -> None:
    lock = Places(source.parent / "data").lock("fetch")
    with only_one(lock, "this test"), pytest.raises(Refused, match="another process is at it"):
        _fetch(source, "text")


def _vocabulary(source: Path) -> Path:
    return Places(source.parent / "data").snapshot("model", "toy", MODEL) / "vocab.txt"


@pytest.mark.parametrize("distrust", [False, True])
def test_a_small_file_that_changed_here_is_not_recorded(
    source: Path, hub: StandIn, distrust: bool
) -> None:
    _fetch(source, "text")
    places = Places(source.parent / "data")
    record = downloads.read(places.downloads).files
    _vocabulary(source).resolve().write_bytes(b"b\n")
    words = ["text", "--full"] if distrust else ["text"]
    with pytest.raises(HarnessError, match="vocab.txt: digest .* the Hub announced .* run again"):
        _fetch(source, *words)
    assert downloads.read(places.downloads).files == record
    _fetch(source, *words)
    assert _vocabulary(source).read_bytes() == b"a\n"
    assert downloads.read(places.downloads).files == record


@pytest.mark.parametrize("size", [True, False])
def test_a_large_file_that_changed_here_is_removed_and_mended(
    source: Path, hub: StandIn, size: bool
) -> None:
    _fetch(source, "toy")
    blob = (_vocabulary(source).parent / "model.safetensors").resolve()
    blob.write_bytes(b"x" * (100 if size else 3))
    with pytest.raises(Refused, match=r"model.safetensors: sha256 .*was removed, run again"):
        _fetch(source, "toy")
    _fetch(source, "toy")
    assert blob.read_bytes() == b"w" * 100


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "plain_text/train/0001.parquet"), (2, "vocab.txt"), (1, "README.md")],
)
def test_other_bytes_of_the_same_revision_are_refused(
    source: Path, hub: StandIn, number: int, name: str
) -> None:
    _fetch(source, "text")
    places = Places(source.parent / "data")
    record, fetched = places.downloads.read_bytes(), hub.repositories[number]
    before = fetched.sha256(name)
    fetched.files[name] = _parquet(["other"])
    says = rf"{name}: the Hub has sha256 {fetched.sha256(name)}, the first fetch .* had {before}; "
    for _ in range(2):
        with pytest.raises(Refused, match=says + "to take the new one, remove the entry of raw/"):
            _fetch(source, "text")
    assert places.downloads.read_bytes() == record
    place = places.snapshot(fetched.kind, fetched.repo, fetched.revision) / name
    assert place.read_bytes() != fetched.files[name]


def test_a_new_file_is_taken_when_its_record_is_removed(source: Path, hub: StandIn) -> None:
    _fetch(source, "toy")
    downloads_json = Places(source.parent / "data").downloads
    hub.repositories[2].files["vocab.txt"] = b"other\n"
    record = json.loads(downloads_json.read_text())
    record["files"] = [file for file in record["files"] if "vocab.txt" not in file["path"]]
    downloads_json.write_text(json.dumps(record))
    _fetch(source, "toy")
    assert _vocabulary(source).read_bytes() == b"other\n"


def _need(source: Path, amount: int) -> None:
    document = json.loads((source / "pins.json").read_text())
    document["datasets"]["text"]["required_free"] = amount
    (source / "pins.json").write_text(json.dumps(document))


def test_of_the_room_a_dataset_needs_what_is_missing_is_asked_for(
    source: Path, hub: StandIn
) -> None:
    _fetch(source, "text")
    places, known = Places(source.parent / "data"), pins.load(source)
    known.datasets["text"].__dict__["required_free"] = 1 << 40
    client = Hub(hub.endpoint)
    parts = fetch.wanted(known, ["text"])
    files = [target for part in parts for target in fetch.targets(client, part)]
    assert fetch.required(places, known, files) == 0
    whole = sum(t.entry.size for t in files if t.wanted.key == "text")
    one = next(t.entry for t in files if t.entry.path.endswith("0001.parquet"))
    (places.hub / "datasets--owner--text" / "blobs" / one.blob).unlink()
    assert fetch.required(places, known, files) == -(-(1 << 40) * one.size // whole)
    empty = Places(source.parent / "empty")
    tokenizer = sum(t.entry.size for t in files if t.wanted.key == "toy")
    assert fetch.required(empty, known, files) == (1 << 40) + tokenizer


def test_an_override_stays_on_record(source: Path) -> None:
    places = Places(source.parent / "data")
    _need(source, 1 << 50)
    with pytest.raises(Refused, match="are needed"):
        _fetch(source, "text")
    _fetch(source, "text", "--allow-low-disk")
    told = downloads.read(places.downloads).datasets["text"].disk
    assert told.override_used
    _fetch(source, "text")
    assert downloads.read(places.downloads).datasets["text"].disk == told
    _need(source, 1)
    snapshot = places.snapshot("dataset", "owner/text", CONVERSION)
    (snapshot / "plain_text/train/0001.parquet").resolve().unlink()
    _fetch(source, "text")
    assert downloads.read(places.downloads).datasets["text"].disk == told


def test_a_fetch_of_nothing_leaves_the_disk_check_on_record(source: Path) -> None:
    _need(source, 5)
    places = Places(source.parent / "data")
    for _ in range(2):
        _fetch(source, "text")
        assert downloads.read(places.downloads).datasets["text"].disk.required_free > 0


def test_a_part_that_is_too_long_counts_as_nothing(tmp_path: Path) -> None:
    part = fetch.Wanted("toy", Repository("model", "toy", MODEL), ("a",), {})
    blobs = Places(tmp_path).hub / "models--toy" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / ("a" * 40 + ".incomplete")).write_bytes(b"x" * 99)
    assert (
        fetch.remaining(Places(tmp_path), [fetch.Target(part, Entry("a", 10, "a" * 40, None))])
        == 10
    )


def test_names_are_no_patterns(source: Path, hub: StandIn) -> None:
    document = json.loads((source / "pins.json").read_text())
    document["models"]["toy"]["files"] = {"a[1].txt": None, "x[/b].txt": None}
    (source / "pins.json").write_text(json.dumps(document))
    hub.repositories[2].files |= {"a[1].txt": b"1", "a1.txt": b"2", "x[/b].txt": b"3"}
    assert "3 files, all as announced" in _fetch(source, "toy")
    snapshot = _vocabulary(source).parent
    assert (snapshot / "a[1].txt").read_bytes() == b"1"
    assert not (snapshot / "a1.txt").exists()


def test_a_dry_run_prints_nothing_a_terminal_acts_on(source: Path, hub: StandIn) -> None:
    hub.repositories[2].files["a\u202eb"] = b"x"
    document = json.loads((source / "pins.json").read_text())
    document["models"]["toy"]["files"]["a\u202eb"] = None
    (source / "pins.json").write_text(json.dumps(document))
    listed = _fetch(source, "toy", "--dry-run")
    assert r"a\u202eb" in listed
    assert listed.replace("\n", "").isprintable()


def test_a_name_of_an_upstream_and_a_pin_is_refused(source: Path) -> None:
    text = (source / "pins.json").read_text().replace('"toy"', '"duo"')
    (source / "pins.json").write_text(text)
    with pytest.raises(Refused, match="duo: names an upstream and a pin"):
        _fetch(source, "duo", "--dry-run")


def test_a_hostile_id_removes_nothing(source: Path, hub: StandIn) -> None:
    victim = source.parent / "thesis.tex"
    victim.write_text("mine")
    rel = os.path.relpath(victim, Places(source.parent / "data").hub / "models--toy" / "blobs")
    hub.repositories[2].sha256 = lambda path: rel  # type: ignore[method-assign]
    with pytest.raises(HarnessError, match="is no SHA-256"):
        _fetch(source, "toy")
    assert victim.read_text() == "mine"

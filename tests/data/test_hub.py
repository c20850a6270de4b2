"""Fetching from a stand-in Hub: what arrives, and what every fault leaves behind."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_in_hub import Fault, Files, StandIn, hurry, serving

from harness.data.hub import Entry, Hub, Repository, git_blob_id
from harness.errors import HarnessError, Refused

REVISION = "1" * 40
OTHER = "2" * 40
LARGE = random.Random(0).randbytes(3 << 20)
SMALL = b'{"a": 1}\n'
REPOSITORY = Repository("dataset", "owner/text", REVISION)


@pytest.fixture
def hub() -> Iterator[StandIn]:
    many = {f"other/{number}.txt": b"%d" % number for number in range(7)}
    files = Files(
        "dataset",
        "owner/text",
        REVISION,
        {"data/a.parquet": LARGE, "config.json": SMALL, **many},
        frozenset({"data/a.parquet"}),
    )
    with serving(StandIn([files])) as server:
        yield server


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def _entry(server: StandIn, path: str) -> Entry:
    found = [e for e in Hub(server.endpoint).files(REPOSITORY) if e.path == path]
    return found[0]


def _get(server: StandIn, cache: Path, path: str = "data/a.parquet") -> Path:
    entry = _entry(server, path)
    return Hub(server.endpoint).download(REPOSITORY, entry, cache, lambda done: None)


def _published(cache: Path) -> list[str]:
    """Names in the cache under which a reader would take a file for good."""
    paths = [p for p in cache.rglob("*") if not p.is_dir() and not p.name.endswith(".incomplete")]
    return sorted(path.relative_to(cache).as_posix() for path in paths)


def test_listing_is_whole_and_in_order_over_pages(hub: StandIn) -> None:
    entries = Hub(hub.endpoint).files(REPOSITORY)
    assert [entry.path for entry in entries] == sorted(hub.repositories[0].files)
    assert [entry.sha256 is not None for entry in entries].count(True) == 1


@pytest.mark.parametrize(("path", "data"), [("data/a.parquet", LARGE), ("config.json", SMALL)])
def test_a_file_arrives_in_the_cache_layout(
    hub: StandIn, tmp_path: Path, path: str, data: bytes
) -> None:
    place = _get(hub, tmp_path, path)
    assert place.read_bytes() == data
    assert place == tmp_path / "datasets--owner--text" / "snapshots" / REVISION / path
    assert not place.readlink().is_absolute()
    assert place.resolve().name == hub.repositories[0].etag(path)
    from huggingface_hub import hf_hub_download

    offline = hf_hub_download(
        "owner/text", path, repo_type="dataset", revision=REVISION, cache_dir=tmp_path,
        local_files_only=True,
    )  # fmt: skip
    assert Path(offline) == place


def test_what_is_there_is_not_fetched_again(hub: StandIn, tmp_path: Path) -> None:
    entry = _entry(hub, "data/a.parquet")
    Hub(hub.endpoint).download(REPOSITORY, entry, tmp_path, lambda done: None)
    before = len(hub.requests)
    Hub(hub.endpoint).download(REPOSITORY, entry, tmp_path, lambda done: None)
    assert len(hub.requests) == before


def test_a_cut_connection_is_continued_within_the_call(hub: StandIn, tmp_path: Path) -> None:
    hub.faults = [Fault("get", cut=1 << 20)]
    assert _get(hub, tmp_path).read_bytes() == LARGE
    ranges = [r for _, path, _, r in hub.requests if path.startswith("/cdn/") and r]
    assert ranges == [f"bytes={1 << 20}-"]


def test_a_call_that_gives_up_is_continued_by_the_next(hub: StandIn, tmp_path: Path) -> None:
    hub.faults = [Fault("get", cut=1 << 20), Fault("get", cut=0, times=50)]
    with pytest.raises(HarnessError, match="cannot be reached .* run again to go on"):
        _get(hub, tmp_path)
    assert _published(tmp_path) == []
    hub.faults, hub.requests[:] = [], []
    assert _get(hub, tmp_path).read_bytes() == LARGE
    assert [r for _, path, _, r in hub.requests if path.startswith("/cdn/")] == [
        f"bytes={1 << 20}-"
    ]


def test_a_server_that_ignores_ranges_gives_the_right_file(hub: StandIn, tmp_path: Path) -> None:
    hub.faults = [Fault("get", cut=1 << 20), Fault("get", ignore_range=True)]
    assert _get(hub, tmp_path).read_bytes() == LARGE


@pytest.mark.parametrize("path", ["data/a.parquet", "config.json"])
def test_corrupted_bytes_are_not_published_and_the_next_call_mends(
    hub: StandIn, tmp_path: Path, path: str
) -> None:
    hub.faults = [Fault("get", corrupt=True)]
    with pytest.raises(HarnessError, match="the Hub announced .* was removed, run again"):
        _get(hub, tmp_path, path)
    assert _published(tmp_path) == []
    assert _get(hub, tmp_path, path).read_bytes() == hub.repositories[0].files[path]


def test_a_stall_is_noticed_and_overcome(hub: StandIn, tmp_path: Path) -> None:
    hub.faults = [Fault("get", cut=1 << 20, stall=3)]
    assert _get(hub, tmp_path).read_bytes() == LARGE


def test_a_slow_server_is_waited_for(hub: StandIn, tmp_path: Path) -> None:
    hub.faults = [Fault("get", slow=0.001)]
    seen: list[int] = []
    entry = _entry(hub, "data/a.parquet")
    Hub(hub.endpoint).download(REPOSITORY, entry, tmp_path, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == len(LARGE)


def test_a_commit_other_than_the_pinned_one_is_refused(hub: StandIn, tmp_path: Path) -> None:
    hub.faults = [Fault("head", revision=OTHER)]
    with pytest.raises(HarnessError, match="the Hub serves commit"):
        _get(hub, tmp_path)
    assert _published(tmp_path) == []


def test_a_revision_that_is_not_there_is_named(hub: StandIn) -> None:
    with pytest.raises(HarnessError, match="HTTP 404, not found on the Hub"):
        Hub(hub.endpoint).files(Repository("dataset", "owner/text", OTHER))


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "set HF_TOKEN"),
        (403, "accept its terms"),
        (404, "check repository, revision and file"),
        (429, "wait some minutes"),
        (500, "the Hub fails"),
    ],
)
@pytest.mark.parametrize("stage", ["list", "head", "get"])
def test_every_refusal_is_one_line_that_says_what_to_do(
    hub: StandIn, tmp_path: Path, stage: str, status: int, advice: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    hub.faults = [Fault(stage, status=status, times=100)]
    with pytest.raises(HarnessError, match=f"HTTP {status}, .*{advice}") as caught:
        _get(hub, tmp_path)
    assert "\n" not in str(caught.value)
    assert _published(tmp_path) == []
    hub.faults = []
    assert _get(hub, tmp_path).read_bytes() == LARGE


def test_a_token_goes_to_the_hub_and_to_no_other_host(hub: StandIn, tmp_path: Path) -> None:
    hub.token = "secret"
    entry = next(e for e in Hub(hub.endpoint, "secret").files(REPOSITORY) if e.sha256)
    Hub(hub.endpoint, "secret").download(REPOSITORY, entry, tmp_path, lambda done: None)
    sent = {path.startswith("/cdn/"): token for _, path, token, _ in hub.requests}
    assert sent == {True: None, False: "Bearer secret"}


def test_without_a_token_in_the_environment_none_is_sent(
    hub: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "not asked for")
    _get(hub, tmp_path)
    assert {token for _, _, token, _ in hub.requests} == {None}


def test_a_full_disk_is_one_line_and_the_next_call_goes_on(
    hub: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.data import hub as module

    real = module._Counted.write

    def full(self: module._Counted, data: bytes) -> int:
        if self.tell() >= 1 << 20:
            raise OSError(28, "No space left on device")
        return real(self, data)

    with monkeypatch.context() as patched:
        patched.setattr(module._Counted, "write", full)
        with pytest.raises(HarnessError, match="No space left on device; run again"):
            _get(hub, tmp_path)
    assert _published(tmp_path) == []
    hub.requests[:] = []
    assert _get(hub, tmp_path).read_bytes() == LARGE
    assert [r for _, path, _, r in hub.requests if path.startswith("/cdn/")] == [
        f"bytes={1 << 20}-"
    ]


def test_nothing_listens(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="cannot be reached"):
        Hub("http://127.0.0.1:9").files(REPOSITORY)


def test_a_path_that_leaves_the_snapshot_is_refused(hub: StandIn) -> None:
    hub.repositories[0].files["../evil"] = b"x"
    with pytest.raises(HarnessError, match="leaves the repository"):
        Hub(hub.endpoint).files(REPOSITORY)


def test_offline_is_said(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Refused, match="HF_HUB_OFFLINE is set"):
        Hub(hub.endpoint)


def test_git_blob_id_is_gits(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"hello\n")
    assert git_blob_id(tmp_path / "a") == "ce013625030ba8dba906f756967f9e9ca394464a"

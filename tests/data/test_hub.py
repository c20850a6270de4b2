"""Fetching from a stand-in Hub: what arrives, and what every fault leaves behind."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stand_in_hub import Fault, Files, StandIn, hurry, serving

from harness.data.hub import Entry, Hub, Repository, git_blob_id, link
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


@pytest.mark.parametrize(
    "path", ["../evil", "a\n/../../evil", "a/./b", "/evil", "a//b", "a\\b", "a\x1b[1m", "a\ud800"]
)
def test_a_path_that_leaves_the_snapshot_is_refused(hub: StandIn, path: str) -> None:
    hub.repositories[0].files[path] = b"x"
    with pytest.raises(HarnessError, match="leaves the repository"):
        Hub(hub.endpoint).files(REPOSITORY)


def test_offline_is_said(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Refused, match="HF_HUB_OFFLINE is set"):
        Hub(hub.endpoint)


def test_git_blob_id_is_gits(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"hello\n")
    assert git_blob_id(tmp_path / "a") == "ce013625030ba8dba906f756967f9e9ca394464a"


HOSTILE = "../../../victim"


def _announce(hub: StandIn, monkeypatch: pytest.MonkeyPatch, what: str, value: object) -> None:
    """Let the listing say `value` of every file."""
    monkeypatch.setattr(hub.repositories[0], what, lambda path: value, raising=False)


@pytest.mark.parametrize(
    ("what", "value", "says"),
    [
        ("sha256", HOSTILE, "is no SHA-256"),
        ("sha256", "A" * 64, "is no SHA-256"),
        ("sha256", ["a"], "is no SHA-256"),
        ("blob_id", HOSTILE, "is no git id"),
        ("blob_id", "0" * 40 + "\n", "is no git id"),
        ("blob_id", None, "is no git id"),
    ],
)
def test_an_id_that_is_none_is_refused(
    hub: StandIn, monkeypatch: pytest.MonkeyPatch, what: str, value: object, says: str
) -> None:
    _announce(hub, monkeypatch, what, value)
    with pytest.raises(HarnessError, match=says) as caught:
        Hub(hub.endpoint).files(REPOSITORY)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [-1, 1.5, "9", None, True, 1 << 60])
def test_a_size_that_is_none_is_refused(
    hub: StandIn, monkeypatch: pytest.MonkeyPatch, size: object
) -> None:
    from huggingface_hub.hf_api import RepoFile

    listed = [RepoFile(path="a", size=size, oid="0" * 40)]
    monkeypatch.setattr("huggingface_hub.HfApi.list_repo_tree", lambda *_, **__: listed)
    with pytest.raises(HarnessError, match="is no size"):
        Hub(hub.endpoint).files(REPOSITORY)


@pytest.mark.parametrize("answer", [[{"type": "file"}], [1], {"error": "no"}, None, [[]]])
def test_a_listing_that_is_none_is_one_line(
    hub: StandIn, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    from huggingface_hub.hf_api import RepoFile

    def as_the_library_reads_it(*_: object, **__: object) -> list[RepoFile]:
        return [RepoFile(**entry) for entry in answer]  # type: ignore[attr-defined]

    monkeypatch.setattr("huggingface_hub.HfApi.list_repo_tree", as_the_library_reads_it)
    with pytest.raises(HarnessError, match="answer is not understood") as caught:
        Hub(hub.endpoint).files(REPOSITORY)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("revision", [HOSTILE, "main", "1" * 40 + "\n"])
def test_a_commit_that_is_none_is_refused(hub: StandIn, revision: str) -> None:
    hub.repositories[0].revision = revision
    with pytest.raises(HarnessError, match="which is no commit"):
        Hub(hub.endpoint).revision("dataset", "owner/text", None)


@pytest.mark.parametrize("repo", ["a b", "", "a/b/c", "../x", "https://huggingface.co/a/b", "a--b"])
def test_a_name_of_no_repository_is_refused(hub: StandIn, repo: str) -> None:
    with pytest.raises(Refused, match="write NAME or OWNER/NAME"):
        Hub(hub.endpoint).revision("model", repo, None)
    assert hub.requests == []


@pytest.mark.parametrize("path", ["../../evil", "a\n/../../../evil", "/evil", "", ".."])
def test_nothing_is_written_outside_the_cache(hub: StandIn, tmp_path: Path, path: str) -> None:
    """Even where no listing was asked."""
    with pytest.raises(Refused, match="no place inside"):
        link(REPOSITORY, Entry(path, 1, "0" * 40, None), tmp_path / "cache", tmp_path / "blob")
    with pytest.raises(Refused, match="no place inside"):
        entry = Entry("a", 1, path, None)
        Hub(hub.endpoint).blob(REPOSITORY, entry, tmp_path / "cache", lambda done: None)
    assert list(tmp_path.iterdir()) == []


def test_a_link_out_of_the_snapshot_is_not_followed(hub: StandIn, tmp_path: Path) -> None:
    outside, cache = tmp_path / "outside", tmp_path / "cache"
    outside.mkdir()
    snapshot = cache / "datasets--owner--text" / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "data").symlink_to(outside)
    with pytest.raises(Refused, match="symbolic link"):
        _get(hub, cache)
    assert list(outside.iterdir()) == []


def test_a_small_file_that_changed_here_is_removed_and_mended(hub: StandIn, tmp_path: Path) -> None:
    place = _get(hub, tmp_path, "config.json")
    place.resolve().write_bytes(b'{"a": 2}\n')
    with pytest.raises(HarnessError, match="config.json: digest .* announced .* was removed"):
        _get(hub, tmp_path, "config.json")
    assert _get(hub, tmp_path, "config.json").read_bytes() == SMALL


def test_a_whole_download_that_has_no_name_yet_is_not_asked_for(
    hub: StandIn, tmp_path: Path
) -> None:
    entry = _entry(hub, "data/a.parquet")
    part = tmp_path / "datasets--owner--text" / "blobs" / f"{entry.blob}.incomplete"
    part.parent.mkdir(parents=True)
    part.write_bytes(LARGE)
    hub.requests[:] = []
    assert _get(hub, tmp_path).read_bytes() == LARGE
    assert not [path for _, path, _, _ in hub.requests if path.startswith("/cdn/")]


def test_no_more_is_taken_than_was_announced(
    hub: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(_: str, file: Any, **__: object) -> None:
        for _ in range(100):
            file.write(LARGE)

    monkeypatch.setattr("huggingface_hub.file_download.http_get", endless)
    with pytest.raises(HarnessError, match="data/a.parquet: more than the announced 3145728 bytes"):
        _get(hub, tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.incomplete")) <= len(LARGE)


@pytest.mark.parametrize("token", ["tök", "a\nb", " ", "hf_x\n", "a b", "\ud800"])
def test_a_token_that_is_none_is_refused_and_not_told(hub: StandIn, token: str) -> None:
    with pytest.raises(Refused, match="HF_TOKEN holds characters") as caught:
        Hub(hub.endpoint, token)
    assert token.strip() == "" or token not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint",
    ["http://[::1", "notaurl", "ftp://x", "", "http://", "http://a:b", "http://a b", "http://ä",
     "http://a\n", "http://me:secret@[::1"],
)  # fmt: skip
def test_an_endpoint_that_is_none_is_refused_and_not_told(endpoint: str) -> None:
    with pytest.raises(Refused, match="HF_ENDPOINT is no web address") as caught:
        Hub(endpoint)
    assert "secret" not in str(caught.value)


def test_an_endpoint_is_looked_at_before_the_library_reads_it(tmp_path: Path) -> None:
    """The library reads HF_ENDPOINT as it is imported, and fails there."""
    command = [sys.executable, "-m", "harness", "--root", str(tmp_path), "fetch", "gpt2"]
    environment = {**os.environ, "HF_ENDPOINT": "http://[::1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("harness: HF_ENDPOINT is no web address")

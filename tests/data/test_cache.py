"""The cache's survey, and removal of exactly what no pin needs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from stand_in_hub import Files, StandIn, serving

from harness.cli.main import group
from harness.data import cache, downloads, pins
from harness.data.hub import Hub, Repository
from harness.data.locking import only_one
from harness.data.places import Places
from harness.errors import Refused
from harness.project import Project

SOURCE = Path(__file__).parents[2]
PINNED, OLD = "a" * 40, "b" * 40


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A cache with a pinned snapshot, an old one that shares a blob, and a foreign repository."""
    shared, old, new = b"same in both", b"old", b"new"
    repositories = [
        Files("model", "toy", PINNED, {"vocab.txt": shared, "tokenizer.json": new}),
        Files("model", "toy", OLD, {"vocab.txt": shared, "tokenizer.json": old}),
        Files("model", "owner/other", OLD, {"x": b"x"}),
    ]
    source = tmp_path / "source"
    source.mkdir()
    toy = {"kind": "hub", "revision": PINNED}
    toy |= {"files": {"vocab.txt": None, "tokenizer.json": None}}
    absent = {"kind": "hub", "revision": PINNED, "files": {"a": None}}
    models = {"toy": toy, "absent": absent}
    document = {"schema_version": 1, "datasets": {}, "models": models}
    (source / "pins.json").write_text(json.dumps(document))
    found = Project(source=source, root=tmp_path)
    with serving(StandIn(repositories)) as server:
        hub = Hub(server.endpoint)
        for files in repositories:
            repository = Repository("model", files.repo, files.revision)
            for entry in hub.files(repository):
                hub.download(repository, entry, Places.of(found).hub, lambda done: None)
    (Places.of(found).hub / "models--toy" / "blobs" / "c.incomplete").write_bytes(b"half")
    yield found


def _survey(project: Project) -> dict[str, cache.Item]:
    items = cache.survey(Places.of(project), pins.load(project.source))
    return {item.what: item for item in items}


def test_survey(project: Project) -> None:
    items = _survey(project)
    assert {what: item.state for what, item in items.items() if "blob" not in what} == {
        f"model toy@{PINNED[:12]}": "pinned",
        f"model absent@{PINNED[:12]}": "missing",
        f"models--toy@{OLD[:12]}": "not pinned",
        "models--owner--other": "not pinned",
        "models--toy download c.incomplete": "incomplete",
    }
    assert items[f"model toy@{PINNED[:12]}"].size == len(b"same in both") + len(b"new")
    assert items["models--owner--other"].size == 1
    blobs = [item for what, item in items.items() if "blob" in what]
    assert [(blob.state, blob.size) for blob in blobs] == [("not pinned", len(b"old"))]


def test_a_snapshot_without_a_file_is_incomplete(project: Project) -> None:
    (Places.of(project).snapshot("model", "toy", PINNED) / "vocab.txt").unlink()
    assert _survey(project)[f"model toy@{PINNED[:12]}"].state == "incomplete"


def test_removal_keeps_every_pinned_byte(project: Project) -> None:
    places = Places.of(project)
    cache.remove(cache.unpinned(_survey(project).values()))
    snapshot = places.snapshot("model", "toy", PINNED)
    assert (snapshot / "vocab.txt").read_bytes() == b"same in both"
    assert (snapshot / "tokenizer.json").read_bytes() == b"new"
    assert not (places.hub / "models--owner--other").exists()
    assert not places.snapshot("model", "toy", OLD).exists()
    assert (places.hub / "models--toy" / "blobs" / "c.incomplete").exists()
    assert cache.unpinned(_survey(project).values()) == []


def test_removal_does_not_follow_links(project: Project, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    (Places.of(project).hub / "models--linked").symlink_to(precious)
    cache.remove(cache.unpinned(_survey(project).values()))
    assert (precious / "file").read_text() == "keep"


@pytest.mark.parametrize("part", ["", "snapshots", "blobs"])
def test_a_pinned_repository_that_lies_elsewhere_is_not_looked_into(
    project: Project, tmp_path: Path, part: str
) -> None:
    """A cache of several projects, say: what this one does not pin there is another's."""
    here, elsewhere = Places.of(project).hub / "models--toy" / part, tmp_path / "elsewhere"
    here.rename(elsewhere)
    here.symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    cache.remove(cache.unpinned(_survey(project).values()))
    assert sorted(elsewhere.rglob("*")) == before


def test_missing_weights_are_told(project: Project) -> None:
    path = project.source / "pins.json"
    document = json.loads(path.read_text())
    document["models"]["toy"]["weights"] = {"model.safetensors": None}
    path.write_text(json.dumps(document))
    what = f"model toy@{PINNED[:12]} (without weights)"
    assert _survey(project)[what].state == "pinned"
    (Places.of(project).snapshot("model", "toy", PINNED) / "model.safetensors").write_bytes(b"w")
    assert f"model toy@{PINNED[:12]}" in _survey(project)


def _cache(project: Project, *words: str, answer: str = "") -> str:
    command = group.get_command(None, "cache")  # type: ignore[arg-type]
    assert command is not None
    result = CliRunner().invoke(command, words, obj=project, input=answer, catch_exceptions=False)
    return result.output


def test_the_command_shows_before_it_removes(project: Project) -> None:
    shown = _cache(project, "--remove", answer="n\n")
    assert "models--owner--other" in shown
    assert "remove these 3" in shown
    assert len(cache.unpinned(_survey(project).values())) == 3
    assert "removed 3" in _cache(project, "--remove", answer="y\n")
    assert "nothing to remove" in _cache(project, "--remove", "--yes")


def test_the_list_names_every_state(project: Project) -> None:
    listed = _cache(project)
    for word in ("pinned", "missing", "not pinned", "MiB"):
        assert word in listed


def test_nothing_is_removed_while_a_fetch_runs(project: Project) -> None:
    """A fetched blob has no name in a snapshot for a moment."""
    lock = Places.of(project).lock("fetch")
    with only_one(lock, "this test"), pytest.raises(Refused, match="another process is at it"):
        _cache(project, "--remove", "--yes")
    assert len(cache.unpinned(_survey(project).values())) == 3


def test_what_is_not_pinned_any_more_is_told_wherever_it_lies(project: Project) -> None:
    places = Places.of(project)
    old = [places.corpus("old"), places.processed("old"), places.training("lightning", "old")]
    for folder in old:
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * 10)
    items = _survey(project)
    for what in ("corpus old", "processed set old", "training cache lightning/old"):
        assert (items[what].state, items[what].size) == ("not pinned", 10)
    _cache(project, "--remove", "--yes")
    assert not any(folder.exists() for folder in old)


def test_a_dataset_is_whole_when_its_fetch_was_recorded(project: Project) -> None:
    """Some shards of it are not all: how many there are is known once they are fetched."""
    text = json.loads((project.source / "pins.json").read_text())
    real = json.loads((SOURCE / "pins.json").read_text())
    text["datasets"]["owt"] = real["datasets"]["owt"]
    text["models"] |= real["models"]
    (project.source / "pins.json").write_text(json.dumps(text))
    known, places = pins.load(project.source).dataset("owt"), Places.of(project)
    snapshot = places.snapshot("dataset", known.repo, known.revision)
    names = [f"plain_text/train-{number:05d}-of-00080.parquet" for number in range(2)]
    for name in names:
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_bytes(b"x")
    what = f"dataset owt@{known.revision[:12]}"
    assert _survey(project)[what].state == "incomplete"
    files = tuple((snapshot / name).relative_to(places.data).as_posix() for name in names)
    disk = downloads.Disk(1, 1, False, False, False)
    fetched = downloads.FetchedDataset(
        known.repo, known.revision, None, (), {"train": 2}, {"train": files}, disk
    )
    downloads.Downloads(datasets={"owt": fetched}).publish(places.downloads)
    assert _survey(project)[what].state == "pinned"
    (snapshot / names[1]).unlink()
    assert _survey(project)[what].state == "incomplete"


def test_sets_are_listed(smoke: Project) -> None:
    items = _survey(smoke)
    assert items["corpus smoke-lm1b"].state == "pinned"
    assert items["training cache lightning/smoke-lm1b-bert-128"].state == "pinned"
    assert items["training cache lightning/smoke-owt-gpt2-1024"].state == "missing"
    assert items["processed set smoke-lm1b-bert-128"].state == "pinned"
    assert items["processed set owt-gpt2-1024"].state == "missing"
    assert cache.unpinned(items.values()) == []

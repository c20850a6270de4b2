"""A fetched dataset's text and tokenizer: checked before they are used, whole or refused."""

import io
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
import pytest
from click.testing import CliRunner
from pyarrow import parquet
from stand_in_hub import Files, StandIn, serving

from harness.cli.main import group
from harness.data import embedded, pins, ready, verify
from harness.data.places import Places
from harness.data.progress import silent
from harness.errors import Refused
from harness.project import Project

CONVERSION, REVISION, MODEL = "c" * 40, "a" * 40, "b" * 40
SOURCE = Path(__file__).parents[2]
WORDS = ["the", "judge", "signed", "a", "letter", "and", "some", "sailors", "hauled", "nets"]
TEXT = [
    " ".join(WORDS[(i * 7 + j * (i % 5 + 1)) % len(WORDS)] for j in range(40)) for i in range(9)
]
SPLITS = {"train/0000": TEXT[:4], "train/0001": TEXT[4:7], "test/0000": TEXT[7:]}


def _parquet(texts: list[str]) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pyarrow.table({"text": texts}), sink)
    return sink.getvalue()


@pytest.fixture
def project(
    tmp_path: Path, toy_tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    """A project with a dataset and a model of a stand-in Hub, fetched."""
    data = {f"plain_text/{name}.parquet": _parquet(texts) for name, texts in SPLITS.items()}
    tokenizer = {path.name: path.read_bytes() for path in toy_tokenizer.iterdir()}
    repositories = [
        Files("dataset", "owner/text", CONVERSION, data, frozenset(data)),
        Files("dataset", "owner/text", REVISION, {"README.md": b"# text\n"}),
        Files("model", "toy", MODEL, tokenizer),
        Files("model", "other", MODEL, {"config.json": b"{}"}),
    ]
    lm1b = json.loads((SOURCE / "pins.json").read_text())["datasets"]["lm1b"]
    lm1b |= {"repo": "owner/text", "revision": REVISION, "conversion": CONVERSION, "files": {}}
    lm1b |= {"tokenizer": "toy", "models": ["toy", "other"], "sequence_length": 16}
    lm1b["splits"]["train"]["documents"], lm1b["splits"]["validation"]["documents"] = 7, 2
    model = {"kind": "hub", "revision": MODEL}
    toy = {**model, "files": dict.fromkeys(tokenizer), "vocabulary": 1000, "bos": 101, "eos": 102}
    models = {"toy": toy, "other": {**model, "files": {"config.json": None}}}
    source = tmp_path / "source"
    source.mkdir()
    document = {"schema_version": 1, "datasets": {"text": lm1b}, "models": models}
    (source / "pins.json").write_text(json.dumps(document))
    (source / "upstreams.json").write_bytes((SOURCE / "upstreams.json").read_bytes())
    made = Project(source=source, root=tmp_path)
    with serving(StandIn(repositories)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        fetched = CliRunner().invoke(group.get_command(None, "fetch"), ["text", "other"], obj=made)
        assert fetched.exit_code == 0, fetched.output
        yield made


def _text(project: Project, name: str = "train/0001") -> Path:
    snapshot = Places.of(project).snapshot("dataset", "owner/text", CONVERSION)
    return snapshot / "plain_text" / f"{name}.parquet"


def _model(project: Project, name: str) -> Path:
    return Places.of(project).snapshot("model", name, MODEL)


def _spoil(path: Path) -> None:
    path = path.resolve()
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def _prepare(project: Project) -> None:
    ready.prepare_dataset(project, "text", silent, 1)


@pytest.mark.parametrize("what", ["text", "tokenizer"])
@pytest.mark.parametrize("before", [True, False])
def test_nothing_is_made_of_other_bytes_than_were_fetched(
    project: Project, what: str, before: bool
) -> None:
    if before:
        _prepare(project)
    if what == "text":  # as many documents, of other words
        _text(project).resolve().write_bytes(_parquet(["others"] * 3))
    else:
        _spoil(_model(project, "toy") / "vocab.txt")
    with pytest.raises(Refused, match=r"sha256 .*(wanted is|on record is)"):
        _prepare(project)
    assert Places.of(project).processed("lm1b-bert-128").exists() == before


@pytest.mark.parametrize("name", SPLITS)
def test_a_part_of_the_text_is_not_the_text(project: Project, name: str) -> None:
    _prepare(project)
    _text(project, name).unlink()
    for call in (_prepare, lambda p: verify.verify_around(p, "text", silent)):
        with pytest.raises(Refused, match=f"{name}.parquet: is missing; run 'harness fetch text'"):
            call(project)
    assert ready.missing(project, "text", "rdlm") != []
    assert (
        CliRunner().invoke(group.get_command(None, "fetch"), ["text"], obj=project).exit_code == 0
    )
    _prepare(project)
    assert ready.missing(project, "text", "rdlm") == []


def test_a_file_beside_the_fetched_ones_is_refused(project: Project) -> None:
    _text(project, "train/0002").write_bytes(_parquet(["one more"]))
    with pytest.raises(Refused, match="train/0002.parquet: was not fetched with the others"):
        _prepare(project)


def test_what_is_spoilt_is_made_again(project: Project) -> None:
    """Whatever verification finds, to prepare again mends."""
    _prepare(project)
    places = Places.of(project)
    name = pins.load(project.source).dataset("text").processed
    whole = verify.verify(places, name, silent).manifest.sha256()
    for folder in (places.processed(name), *(places.data / "training").iterdir()):
        path = max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
        data = path.read_bytes()
        path.unlink()  # it is a link to what else has these bytes
        path.write_bytes(data[:-1] + b"x")
        _prepare(project)
        verdict = verify.verify(places, name, silent)
        assert (verdict.problems, verdict.manifest.sha256()) == ((), whole)
        verify.verify_around(project, "text", silent)


def test_a_model_beside_the_tokenizer_is_checked(project: Project) -> None:
    _prepare(project)
    ready.inputs(project, "text", "lightning")
    (_model(project, "other") / "extra.py").write_text("")
    with pytest.raises(Refused, match="extra.py: no pinned file of other"):
        ready.inputs(project, "text", "lightning")
    (_model(project, "other") / "extra.py").unlink()
    _spoil(_model(project, "other") / "config.json")
    with pytest.raises(Refused, match="config.json: sha256"):
        ready.inputs(project, "text", "lightning")


def test_a_run_sees_no_blob_of_another_revision(project: Project) -> None:
    blobs = _model(project, "toy").parents[1] / "blobs"
    (blobs / ("d" * 40)).write_text("of another revision")
    shown = {place for _, place in ready.visible(project, "text")}
    assert len([place for place in shown if "models--toy/blobs/" in place]) == len(
        {path.resolve() for path in _model(project, "toy").iterdir()}
    )
    assert not any(place.endswith(("blobs", "d" * 40)) for place in shown)
    for path, _ in ready.visible(project, "text"):
        assert path.exists()


def test_datasets_that_share_a_corpus_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that write at once would take each other's unfinished files away."""
    project = Project(source=SOURCE, root=tmp_path)
    inside, worst, write = [0], [0], embedded.write_corpus

    def counted(*given: object) -> Path:
        inside[0] += 1
        worst[0] = max(worst[0], inside[0])
        threading.Event().wait(0.05)
        inside[0] -= 1
        return write(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(embedded, "write_corpus", counted)
    known = pins.load(SOURCE)
    model = known.model("smoke-bert")
    dataset = known.dataset("smoke-lm1b")
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(ready._generate, project, dataset, model) for _ in range(3)]
        for job in jobs:
            job.result()
    assert worst == [1]

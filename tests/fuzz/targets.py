"""Every parser of files that somebody else may have written, each with files it takes.

A target is given bytes in the place of one file, and reads it as a command would. It may raise a
HarnessError, which is shown as one line (an OSError too); anything else is a fault.
"""

import json
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import run_folders
from checkpoint_files import whole, write
from click.testing import CliRunner

from harness import (
    adaptation,
    complete,
    evaluation,
    folder,
    lock,
    matrix,
    papers,
    records,
    resume,
    run,
    sampling,
    sources,
)
from harness.audit import audit
from harness.canonical import digest
from harness.checkpoint import CheckpointReport
from harness.cli.main import group
from harness.data import arrow, downloads, manifest, pins
from harness.errors import HarnessError
from harness.export import crate
from harness.export.statement import parsed
from harness.identity import Identity
from harness.inside.checkpoint import canonical, report
from harness.inside.formats import load
from harness.inside.refusal import Refusal
from harness.json_files import json_bytes, read_json
from harness.limits import size
from harness.mirrors import parse
from harness.plan import Choices, plan
from harness.project import Project
from harness.recipes import load as load_recipes
from harness.schemas import validate
from harness.slurm import commands
from harness.slurm.meeting import Place, join_meeting, open_meeting
from harness.text import printable

SOURCE = Path(__file__).parents[2]
SAMPLES = SOURCE / "tests/data/samples"
EXPECTED = (HarnessError, OSError, Refusal)


@dataclass(frozen=True)
class Target:
    """A parser: files to begin with, whether they are JSON, and how to have it read other bytes.

    It takes those files, unless they are ones that it is to have `refused`.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes, Path], object]
    json: bool = True
    refused: bool = False

    def try_(self, data: bytes, scratch: Path) -> str | None:
        """Read `data`; what the parser refuses it with, None where it takes it.

        Raises what no parser may raise.
        """
        try:
            self.read(data, scratch)
        except EXPECTED as error:
            text = str(error)
            assert text.strip(), "a refusal that says nothing"
            assert len(text) < 5000, "a refusal that is no line"
            return text
        return None


def _file(name: str) -> Callable[[], list[bytes]]:
    return lambda: [(SOURCE / name).read_bytes()]


def _placed(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """Put the bytes at `name` below the scratch folder, and read with that folder."""

    def reading(data: bytes, scratch: Path) -> object:
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return read(scratch)

    return reading


def _recipes(source: Path) -> None:
    catalogue = load_recipes(source)
    for model, dataset in catalogue.pairs():
        for profile in ("paper", "smoke"):
            recipe = catalogue.recipe(model, dataset, profile)
            recipe.record()
            recipe.overrides({})
            complete.candidates(recipe.fields)


def _plans(source: Path) -> None:
    """Plans from recipes that somebody changed; pins and upstreams are the real ones."""
    for name in ("pins.json", "upstreams.json"):
        shutil.copy(SOURCE / name, source / name)
    for name in ("adapters", "builtin"):
        (source / name).mkdir(exist_ok=True)
    project = Project(source, source)
    plan(project, Choices("mdlm", "lm1b"))
    plan(project, Choices("rdlm", "lm1b", profile="smoke"))


def _pins(source: Path) -> None:
    found = pins.load(source)
    for key in ("lm1b", "owt", "smoke-lm1b"):
        one = found.dataset(key)
        manifest.contract(one, found.model(one.tokenizer))


def _locks(source: Path) -> None:
    for path in (SOURCE / "envs").glob("*.json"):
        if path.name != "cli.json":
            shutil.copy(path, source)
    lock.chain(source, "cli")
    lock.chain(source, "test")


def _upstreams(source: Path) -> None:
    sources.pins(Project(source, source))


def _papers(source: Path) -> None:
    found = papers.load(source)
    found.compare(json.loads((SOURCE / "tests/golden/identity/v1.json").read_bytes()), {})


def _launches(source: Path) -> None:
    identity = json.loads((SOURCE / "tests/golden/identity/v1.json").read_bytes())
    records.expected(Project(source, source), identity)


def _arrow(scratch: Path) -> None:
    for ids, masks in arrow.batches(scratch / "data.arrow", 8):
        assert ids.shape == masks.shape
        ids.sum(), masks.sum()


def _arrow_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as made:
        writer = arrow.ShardWriter(Path(made) / "data.arrow", 8)
        writer.append(np.arange(80, dtype="<u2").reshape(10, 8))
        writer.finish()
        return [(Path(made) / "data.arrow").read_bytes()]


def _state(scratch: Path) -> None:
    for path in arrow.shard_paths(scratch):
        assert path.is_relative_to(scratch)


def _checkpoint(scratch: Path) -> None:
    document = report(load(scratch / "model.ckpt"))
    validate(json.loads(canonical(document)), "checkpoint", "the reader's answer")
    assert CheckpointReport


def _checkpoint_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "model.ckpt"
        weights = {"w": whole("float32", "0", 2, 2), "b": whole("int64", "1", 3)}
        value = {"state_dict": weights, "global_step": 3, "hyper_parameters": {"lr": 1e-3}}
        storages = {"0": np.arange(4, dtype="<f4").tobytes(), "1": bytes(24)}
        first = write(path, value, storages).read_bytes()
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return [first, len(header).to_bytes(8, "little") + header + bytes(8)]


def _metrics(scratch: Path) -> None:
    json_bytes(complete.final_metrics(scratch / "metrics.jsonl"))


@cache
def _whole_run() -> Path:
    """A completed run that the record targets spoil copies of."""
    root = Path(tempfile.mkdtemp(prefix="harness-fuzz-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.checkpoint._ask", run_folders.read_here)
        patch.setattr("harness.sandbox.version", lambda: "0.8.0")
        return run_folders.completed_run(Project(SOURCE, root))


def _record_seeds(name: str) -> Callable[[], list[bytes]]:
    return lambda: [(_whole_run() / name).read_bytes()]


def _in_a_run(name: str) -> Callable[[bytes, Path], object]:
    """Have every command that reads run folders read one in which a record is other bytes.

    The records vouch for themselves and for each other with digests; these are made right, as one
    who means harm would, so that what is behind the digests is reached too.
    """

    def read(data: bytes, scratch: Path) -> None:
        root = scratch / "root"
        shutil.rmtree(root, ignore_errors=True)
        spoilt = root / "runs" / _whole_run().name
        shutil.copytree(_whole_run(), spoilt)
        (spoilt / name).write_bytes(_vouched(data) if name == folder.COMPLETED else data)
        if name != folder.COMPLETED:
            run_folders.relist(spoilt)
        project = Project(SOURCE, root)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("harness.checkpoint._ask", run_folders.read_here)
            patch.setattr("harness.audit.Machine", run_folders.Here)
            found = audit(run_folders.Here(project), spoilt)
            json_bytes(found.record())
            assert found.exit_code or _same(data, (_whole_run() / name).read_bytes())
            for words_ in _commands(spoilt, scratch):
                result = CliRunner().invoke(group, ["--root", str(root), *words_])
                if not isinstance(result.exception, (SystemExit, type(None), *EXPECTED)):
                    raise result.exception
                assert all(c.isprintable() or c == "\n" for c in result.output), words_

    return read


def _same(one: bytes, two: bytes) -> bool:
    """Whether two records say the same, but for facts that nothing else vouches for."""
    first, second = json.loads(one), json.loads(two)
    for fact in ("attempts", "completed", "paths", "sha256"):
        if fact in first and fact in second:
            first[fact] = second[fact]
    return bool(first == second)


def _commands(spoilt: Path, scratch: Path) -> list[list[str]]:
    other, target = str(_whole_run()), str(scratch / "out")
    shutil.rmtree(target, ignore_errors=True)
    return [
        ["audit", str(spoilt)],
        ["audit", str(spoilt), "--paper"],
        ["diff", str(spoilt), other],
        ["export", str(spoilt), "-o", f"{target}.json"],
        ["export", str(spoilt), "--format", "ro-crate", "-o", target],
        ["report", str(spoilt), "--format", "md"],
        ["report", str(spoilt), "--format", "html"],
        ["status"],
        ["logs", spoilt.name],
    ]


def _vouched(data: bytes) -> bytes:
    try:
        value: Any = json.loads(data)
        del value["sha256"]
        value["sha256"] = digest(value)
        return json_bytes(value)
    except (ValueError, TypeError, KeyError, RecursionError):
        return data


def _job(scratch: Path) -> None:
    """The commands that read what jobs leave; none may stop at one bad record."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "alive", set)
        patch.setattr(commands, "cancel", lambda jobs: None)
        for words in (["status"], ["status", "--json"], ["logs", "a"], ["cancel", "a"]):
            result = CliRunner().invoke(group, ["--root", str(scratch), *words])
            if not isinstance(result.exception, (SystemExit, type(None), *EXPECTED)):
                raise result.exception
            assert words[0] != "status" or result.exit_code == 0, result.output


def _join(scratch: Path) -> None:
    join_meeting(Place(scratch, "7", 0, ("a", "b"), 1), "0" * 64, "lo", lambda: False)


def _open(scratch: Path) -> None:
    open_meeting(Place(scratch, "7", 0, ("a", "b"), 0), "0" * 64, "lo", lambda: False)


def _matrix(scratch: Path) -> None:
    for one in matrix.read(Project(SOURCE, scratch), scratch / "m.yaml", Choices("", "")):
        assert type(one.seed) is int and 0 <= one.seed < 1 << 32


SUBMISSION = {
    "schema_version": 1, "job": "7", "run": "/r/runs/a", "identity": None, "model": "mdlm",
    "dataset": "lm1b", "seed": 1, "nodes": 1, "gpus_per_node": 1, "after": [],
    "submitted": "2026-01-01T00:00:00Z",
}  # fmt: skip
OUTCOME = {
    "schema_version": 1, "status": 143, "message": "x", "requeued": True,
    "ended": "2026-01-01T00:00:00Z",
}  # fmt: skip


def _outcome(scratch: Path) -> None:
    (scratch / "slurm/7.submission.json").write_text(json.dumps(SUBMISSION))
    _job(scratch)


def _statement_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "statement.json"
        root = str(_whole_run().parents[1])
        CliRunner().invoke(group, ["--root", root, "export", str(_whole_run()), "-o", str(path)])
        return [path.read_bytes()]


def _words(data: bytes, scratch: Path) -> None:
    text = data.decode(errors="replace")
    for parser in (lambda: parse((text,)), lambda: size(text)):
        try:
            parser()
        except HarnessError as error:
            assert str(error)


def _samples(data: bytes, scratch: Path) -> None:
    """A sampler prints the bytes, and the judge's own code reads them; its model is set aside."""
    target = scratch / "evaluated"
    shutil.rmtree(target, ignore_errors=True)
    (target / folder.OUTPUT).mkdir(parents=True)
    asked = {"metric": "m", "measure": "generative_perplexity", "judge": {}}

    def supervise(box: object, argv: list[str], out: Path, err: Path, poll: object) -> int:
        if out.name != evaluation.SAMPLES:
            return _judged(target / evaluation.SAMPLES, out, err)
        out.write_bytes(data)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "supervise", supervise)
        status = evaluation._measure(_JUDGING, target)
    if status:
        raise HarnessError(run.last_line(target / folder.STDERR))
    evaluation._complete(target, Identity({"evaluation": asked}, "0" * 64))
    evaluation.printed(target / evaluation.SAMPLES, "Generative perplexity", "m")


def _judged(samples: Path, out: Path, err: Path) -> int:
    """The judge's program as in its sandbox: what it raises is its own, and told in its log."""
    from harness.judge import __main__ as program

    texts = SimpleNamespace(
        encode=lambda text: SimpleNamespace(ids=list(text.encode())),
        no_padding=lambda: None,
        no_truncation=lambda: None,
    )
    with pytest.MonkeyPatch.context() as patch, out.open("w") as told, redirect_stdout(told):
        patch.setattr(program, "GPT2", lambda snapshot: None)
        patch.setattr(program, "generative_perplexity", lambda model, rows: (2.5, len(rows)))
        patch.setattr(program, "Tokenizer", SimpleNamespace(from_file=lambda path: texts))
        try:
            program.main(samples.parent, samples, 8)
        except Exception:
            err.write_text(traceback.format_exc(), errors="replace")
            return 1
    return 0


_JUDGING: Any = SimpleNamespace(
    judge=SimpleNamespace(argv=lambda length: [], box=lambda samples, limits: None),
    plan=SimpleNamespace(argv=(), recipe=SimpleNamespace(number=lambda name: 8)),
    project=SimpleNamespace(limits=None),
    box=lambda: None,
)


def _rows(scratch: Path) -> None:
    for row in sampling.rows(scratch / "stdout.log"):
        json.dumps({"ids": row.ids, "text": row.text}).encode()
        printable(row.text).encode()


def _filled(data: bytes, output: Path, host: Path) -> None:
    """Fill a folder with the entries that a JSON list names: [kind, path, content]."""
    found: Any = read_json_bytes(data, output.parent)
    for kind, name, content in found if isinstance(found, list) else ():
        path = Path(os.path.normpath(output / str(name).strip("/")))
        if not path.is_relative_to(output) or path == output:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        match kind:
            case "link":
                path.symlink_to(host / str(content).strip("/"))
            case "second":
                path.hardlink_to(host / "checkpoints/0-2.ckpt")
            case "gone":
                path.unlink()
            case "pipe":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "checkpoint":
                step = content if isinstance(content, int) else None
                write(path, {"global_step": step, "state_dict": {}}, {})
            case _:
                path.write_text(str(content))


def read_json_bytes(data: bytes, folder: Path) -> object:
    """The JSON value in `data`, none of which anybody but this module wrote or changed."""
    (folder / "entries").write_bytes(data)
    try:
        return read_json(folder / "entries")
    finally:
        (folder / "entries").unlink()


def _resumed(data: bytes, scratch: Path) -> None:
    """A launch goes on over an output of such entries; what lies beside it stays as it is."""
    place = scratch / "resumed"
    shutil.rmtree(place, ignore_errors=True)
    host, output = place / "host", place / "run" / folder.OUTPUT
    for made in (host / "checkpoints", output):
        made.mkdir(parents=True)
    for step in (2, 3, 4):
        file = host / "checkpoints" / f"0-{step}.ckpt"
        write(file, {"global_step": step, "state_dict": {}}, {})
    before = {path: path.read_bytes() for path in host.rglob("*") if path.is_file()}
    with suppress(ValueError, TypeError, OSError, HarnessError):  # no entries, or two in one place
        _filled(data, output, host)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("harness.checkpoint._ask", run_folders.read_here)
            resume.prepare(place / "run", _in_rounds())
    finally:
        assert before == {path: path.read_bytes() for path in host.rglob("*") if path.is_file()}


@cache
def _in_rounds() -> Any:
    """What of a launch decides where it goes on: an upstream's, with rounds of two steps."""
    recipe = load_recipes(SOURCE).recipe("mdlm_sdtt", "lm1b")
    recipe = replace(recipe, fields={**recipe.fields, "steps_per_round": 2})
    planned = SimpleNamespace(recipe=recipe, choices=Choices("mdlm_sdtt", "lm1b"))
    project = Project(SOURCE, SOURCE)
    here = run_folders.environment(project)
    return SimpleNamespace(project=project, environment=here, plan=planned)


def _named(data: bytes, scratch: Path) -> None:
    """A run has files of such names; its crate has them too, and nothing is written beside it."""
    root, out = scratch / "named", scratch / "crates"
    for made in (root, out):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
    run_ = root / "runs" / _whole_run().name
    shutil.copytree(_whole_run(), run_)
    with suppress(ValueError, TypeError, OSError, HarnessError):
        _filled(data, run_, root)
    run_folders.relist(run_)
    crate.write(Project(SOURCE, root), run_, out / "crate", None)
    assert [path.name for path in out.iterdir()] == ["crate"]
    for name in folder.scan(run_)[0]:
        if name != folder.LOCK:
            assert (out / "crate" / name).read_bytes() == (run_ / name).read_bytes()


def _entries(*entries: tuple[str, str, object]) -> list[bytes]:
    return [json.dumps(entries).encode()]


def _trapped() -> list[bytes]:
    """What a trainer leaves, each time with a trap in the place of some of it."""
    places = ("student_checkpoints", "checkpoints", *(name for _, name, _ in _LEFT))
    traps = [(k, name, "checkpoints") for k in ("link", "second", "pipe") for name in places]
    return [
        seed
        for trap in traps
        for seed in _entries(trap, *(e for e in _LEFT if not f"{e[1]}/".startswith(f"{trap[1]}/")))
    ]


def _unfit() -> list[bytes]:
    """A run without a file that every run has, and one with a file named as the crate's own."""
    needed = (folder.RECIPE, folder.ARGV, folder.CONFIG, folder.MODEL, folder.IDENTITY)
    changes = [
        *(("gone", name, "") for name in needed),
        *(("file", name, "x") for name in ("README.md", "ro-crate-metadata.json")),
    ]
    return [seed for change in changes for seed in _entries(change)]


_LEFT = (
    ("checkpoint", "checkpoints/0-2.ckpt", 2),
    ("checkpoint", "checkpoints/0-3.ckpt", 3),
    ("checkpoint", "checkpoints/last.ckpt", 3),
    ("checkpoint", "student_checkpoints/4.ckpt", 4),
)


def _requests(scratch: Path) -> None:
    lock.read_request(scratch / "x.in")


TARGETS = {
    target.name: target
    for target in (
        Target("json", _file("papers.json"), _placed("x", lambda s: read_json(s / "x"))),
        Target("recipes", _file("recipes.json"), _placed("recipes.json", _recipes)),
        Target("plans", _file("recipes.json"), _placed("recipes.json", _plans)),
        Target("pins", _file("pins.json"), _placed("pins.json", _pins)),
        Target("locks", _file("envs/cli.json"), _placed("cli.json", _locks)),
        Target("requests", _file("envs/cli.in"), _placed("x.in", _requests), json=False),
        Target("upstreams", _file("upstreams.json"), _placed("upstreams.json", _upstreams)),
        Target("papers", _file("papers.json"), _placed("papers.json", _papers)),
        Target("launches", _file(str(records.FILE)), _placed(str(records.FILE), _launches)),
        Target(
            "manifest",
            lambda: [(SAMPLES / "processed-1.json").read_bytes()],
            _placed("x.json", lambda s: manifest.read(s / "x.json").sha256()),
        ),
        Target(
            "downloads",
            lambda: [(SAMPLES / "downloads-1.json").read_bytes()],
            _placed("x.json", lambda s: downloads.read(s / "x.json")),
        ),
        *(
            Target(name.removesuffix(".json"), _record_seeds(name), _in_a_run(name))
            for name in (folder.IDENTITY, folder.PROVENANCE, folder.COMPLETED, folder.RECIPE)
        ),
        Target(
            "teacher",
            lambda: [b'{"schema_version": 1}'],
            _placed("provenance.json", lambda s: adaptation.existing(s)),
            refused=True,
        ),
        Target(
            "evaluation",
            lambda: [b'{"schema_version": 1}'],
            _placed(folder.COMPLETED, lambda s: evaluation.completed(s)),
            refused=True,
        ),
        Target("statement", _statement_seeds, lambda data, _: parsed(data, "statement")),
        Target(
            "rows",
            lambda: [b'{"ids": [1, 2], "text": "one two"}\n'],
            _placed("stdout.log", _rows),
        ),
        Target("samples", lambda: [b'{"ids": [1, 2], "text": "one two"}'], _samples),
        Target("output", lambda: _entries(*_LEFT, ("folder", "d", "")), _resumed),
        Target("traps", _trapped, _resumed, refused=True),
        Target("no crate", _unfit, _named, refused=True),
        Target("names", lambda: _entries(("file", "output/x y", "z"), ("file", "a#b", "")), _named),
        Target(
            "metrics", lambda: [b'{"step": 1, "loss": 2.5}\n'], _placed("metrics.jsonl", _metrics)
        ),
        Target(
            "progress",
            lambda: [b'{"step": 1, "max_steps": 8, "loss": 2}'],
            _placed("p.json", lambda s: run.read_progress(s / "p.json")),
        ),
        Target("arrow", _arrow_seeds, _placed("data.arrow", _arrow), json=False),
        Target(
            "arrow folder",
            lambda: [b'{"_data_files": [{"filename": "a.arrow"}], "_split": "train"}'],
            _placed("state.json", _state),
        ),
        Target("checkpoint", _checkpoint_seeds, _placed("model.ckpt", _checkpoint), json=False),
        Target(
            "submission",
            lambda: [json.dumps(SUBMISSION).encode()],
            _placed("slurm/7.submission.json", _job),
        ),
        Target(
            "outcome",
            lambda: [json.dumps(OUTCOME).encode()],
            _placed("slurm/7.outcome.json", _outcome),
        ),
        Target(
            "meeting",
            lambda: [
                b'{"schema_version": 1, "identity_sha256": "%s", "address": "x", "port": 9}'
                % (b"0" * 64)
            ],
            _placed("7.0.meeting.json", _join),
        ),
        Target(
            "member",
            lambda: [
                b'{"schema_version": 1, "identity_sha256": "%s", "name": "b", "host": {}, '
                b'"tools": {}}' % (b"0" * 64)
            ],
            _placed("7.0.member1.json", _open),
        ),
        Target(
            "ended",
            lambda: [b'{"schema_version": 1, "name": "b", "status": 3, "message": "x"}'],
            _placed("7.0.trouble.json", lambda s: Place(s, "7", 0, ("a", "b"), 0).trouble()),
        ),
        Target(
            "matrix",
            lambda: [b'{"schema_version": 1, "recipes": ["mdlm"], "seeds": [1, 2]}'],
            _placed("m.yaml", _matrix),
        ),
        Target("words", lambda: [b"8G", b"duo=/a/folder@" + b"0" * 40], _words, json=False),
    )
}

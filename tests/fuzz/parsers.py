"""Parsers of single files, as a command would call them."""

import json
import shutil
import tempfile
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from checkpoint_files import whole, write
from fuzz.target import SOURCE

from harness import (
    complete,
    evaluation,
    folder,
    lock,
    matrix,
    papers,
    records,
    run,
    sampling,
    sources,
)
from harness.checkpoint import CheckpointReport
from harness.data import arrow, manifest, pins
from harness.errors import HarnessError
from harness.identity import Identity
from harness.inside.checkpoint import canonical, report
from harness.inside.formats import load
from harness.json_files import json_bytes
from harness.limits import size
from harness.mirrors import parse
from harness.plan import Choices, plan
from harness.project import Project
from harness.recipes import load as load_recipes
from harness.schemas import validate
from harness.text import printable


def read_recipes(source: Path) -> None:
    catalogue = load_recipes(source)
    for model, dataset in catalogue.pairs():
        for profile in ("paper", "smoke"):
            recipe = catalogue.recipe(model, dataset, profile)
            recipe.record()
            recipe.overrides({})
            complete.candidates(recipe.fields)


def read_plans(source: Path) -> None:
    """Plans from recipes that somebody changed; pins and upstreams are the real ones."""
    for name in ("pins.json", "upstreams.json"):
        shutil.copy(SOURCE / name, source / name)
    for name in ("adapters", "builtin"):
        (source / name).mkdir(exist_ok=True)
    project = Project(source, source)
    plan(project, Choices("mdlm", "lm1b"))
    plan(project, Choices("rdlm", "lm1b", profile="smoke"))


def read_pins(source: Path) -> None:
    found = pins.load(source)
    for key in ("lm1b", "owt", "smoke-lm1b"):
        one = found.dataset(key)
        manifest.contract(one, found.model(one.tokenizer))


def read_locks(source: Path) -> None:
    for path in (SOURCE / "envs").glob("*.json"):
        if path.name != "cli.json":
            shutil.copy(path, source)
    lock.chain(source, "cli")
    lock.chain(source, "test")


def read_upstreams(source: Path) -> None:
    sources.pins(Project(source, source))


def read_papers(source: Path) -> None:
    found = papers.load(source)
    found.compare(json.loads((SOURCE / "tests/golden/identity/v1.json").read_bytes()), {})


def read_launches(source: Path) -> None:
    identity = json.loads((SOURCE / "tests/golden/identity/v1.json").read_bytes())
    records.expected(Project(source, source), identity)


def read_arrow(scratch: Path) -> None:
    for ids, masks in arrow.batches(scratch / "data.arrow", 8):
        assert ids.shape == masks.shape
        ids.sum(), masks.sum()


def arrow_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as made:
        writer = arrow.ShardWriter(Path(made) / "data.arrow", 8)
        writer.append(np.arange(80, dtype="<u2").reshape(10, 8))
        writer.finish()
        return [(Path(made) / "data.arrow").read_bytes()]


def read_state(scratch: Path) -> None:
    for path in arrow.shard_paths(scratch):
        assert path.is_relative_to(scratch)


def read_checkpoint(scratch: Path) -> None:
    document = report(load(scratch / "model.ckpt"))
    validate(json.loads(canonical(document)), "checkpoint", "the reader's answer")
    assert CheckpointReport


def checkpoint_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "model.ckpt"
        weights = {"w": whole("float32", "0", 2, 2), "b": whole("int64", "1", 3)}
        value = {"state_dict": weights, "global_step": 3, "hyper_parameters": {"lr": 1e-3}}
        storages = {"0": np.arange(4, dtype="<f4").tobytes(), "1": bytes(24)}
        first = write(path, value, storages).read_bytes()
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return [first, len(header).to_bytes(8, "little") + header + bytes(8)]


def read_metrics(scratch: Path) -> None:
    json_bytes(complete.final_metrics(scratch / "metrics.jsonl"))


def read_matrix(scratch: Path) -> None:
    for one in matrix.read(Project(SOURCE, scratch), scratch / "m.yaml", Choices("", "")):
        assert type(one.seed) is int and 0 <= one.seed < 1 << 32


def read_words(data: bytes, scratch: Path) -> None:
    text = data.decode(errors="replace")
    for parser in (lambda: parse((text,)), lambda: size(text)):
        try:
            parser()
        except HarnessError as error:
            assert str(error)


def read_rows(scratch: Path) -> None:
    for row in sampling.rows(scratch / "stdout.log"):
        json.dumps({"ids": row.ids, "text": row.text}).encode()
        printable(row.text).encode()


def read_requests(scratch: Path) -> None:
    lock.read_request(scratch / "x.in")


def judge_samples(data: bytes, scratch: Path) -> None:
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

"""Every parser of files that somebody else may have written, each with files it takes.

A target is given bytes in the place of one file, and reads it as a command would. It may raise a
HarnessError, which is shown as one line (an OSError too); anything else is a fault.
"""

import json

from fuzz.outputs import LEFT, entries, export_named, resume_over, trapped, unfit
from fuzz.parsers import (
    arrow_seeds,
    checkpoint_seeds,
    judge_samples,
    read_arrow,
    read_checkpoint,
    read_launches,
    read_locks,
    read_matrix,
    read_metrics,
    read_papers,
    read_pins,
    read_plans,
    read_recipes,
    read_requests,
    read_rows,
    read_state,
    read_upstreams,
    read_words,
)
from fuzz.runs import (
    OUTCOME,
    SUBMISSION,
    in_a_run,
    join,
    open_place,
    read_jobs,
    read_outcome,
    record_seeds,
    statement_seeds,
)
from fuzz.target import SAMPLES, Target, one_file, placed

from harness import adaptation, evaluation, folder, records, run
from harness.data import downloads, manifest
from harness.export.statement import parsed
from harness.json_files import read_json
from harness.slurm.meeting import Place

TARGETS = {
    target.name: target
    for target in (
        Target("json", one_file("papers.json"), placed("x", lambda s: read_json(s / "x"))),
        Target("recipes", one_file("recipes.json"), placed("recipes.json", read_recipes)),
        Target("plans", one_file("recipes.json"), placed("recipes.json", read_plans)),
        Target("pins", one_file("pins.json"), placed("pins.json", read_pins)),
        Target("locks", one_file("envs/cli.json"), placed("cli.json", read_locks)),
        Target("requests", one_file("envs/cli.in"), placed("x.in", read_requests), json=False),
        Target("upstreams", one_file("upstreams.json"), placed("upstreams.json", read_upstreams)),
        Target("papers", one_file("papers.json"), placed("papers.json", read_papers)),
        Target("launches", one_file(str(records.FILE)), placed(str(records.FILE), read_launches)),
        Target(
            "manifest",
            lambda: [(SAMPLES / "processed-1.json").read_bytes()],
            placed("x.json", lambda s: manifest.read(s / "x.json").sha256()),
        ),
        Target(
            "downloads",
            lambda: [(SAMPLES / "downloads-1.json").read_bytes()],
            placed("x.json", lambda s: downloads.read(s / "x.json")),
        ),
        *(
            Target(name.removesuffix(".json"), record_seeds(name), in_a_run(name))
            for name in (folder.IDENTITY, folder.PROVENANCE, folder.COMPLETED, folder.RECIPE)
        ),
        Target(
            "teacher",
            lambda: [b'{"schema_version": 1}'],
            placed("provenance.json", lambda s: adaptation.existing(s)),
            refused=True,
        ),
        Target(
            "evaluation",
            lambda: [b'{"schema_version": 1}'],
            placed(folder.COMPLETED, lambda s: evaluation.completed(s)),
            refused=True,
        ),
        Target("statement", statement_seeds, lambda data, _: parsed(data, "statement")),
        Target(
            "rows",
            lambda: [b'{"ids": [1, 2], "text": "one two"}\n'],
            placed("stdout.log", read_rows),
        ),
        Target("samples", lambda: [b'{"ids": [1, 2], "text": "one two"}'], judge_samples),
        Target("output", lambda: entries(*LEFT, ("folder", "d", "")), resume_over),
        Target("traps", trapped, resume_over, refused=True),
        Target("no crate", unfit, export_named, refused=True),
        Target(
            "names", lambda: entries(("file", "output/x y", "z"), ("file", "a#b", "")), export_named
        ),
        Target(
            "metrics",
            lambda: [b'{"step": 1, "loss": 2.5}\n'],
            placed("metrics.jsonl", read_metrics),
        ),
        Target(
            "progress",
            lambda: [b'{"step": 1, "max_steps": 8, "loss": 2}'],
            placed("p.json", lambda s: run.read_progress(s / "p.json")),
        ),
        Target("arrow", arrow_seeds, placed("data.arrow", read_arrow), json=False),
        Target(
            "arrow folder",
            lambda: [b'{"_data_files": [{"filename": "a.arrow"}], "_split": "train"}'],
            placed("state.json", read_state),
        ),
        Target("checkpoint", checkpoint_seeds, placed("model.ckpt", read_checkpoint), json=False),
        Target(
            "submission",
            lambda: [json.dumps(SUBMISSION).encode()],
            placed("slurm/7.submission.json", read_jobs),
        ),
        Target(
            "outcome",
            lambda: [json.dumps(OUTCOME).encode()],
            placed("slurm/7.outcome.json", read_outcome),
        ),
        Target(
            "meeting",
            lambda: [
                b'{"schema_version": 1, "identity_sha256": "%s", "address": "x", "port": 9}'
                % (b"0" * 64)
            ],
            placed("7.0.meeting.json", join),
        ),
        Target(
            "member",
            lambda: [
                b'{"schema_version": 1, "identity_sha256": "%s", "name": "b", "host": {}, '
                b'"tools": {}}' % (b"0" * 64)
            ],
            placed("7.0.member1.json", open_place),
        ),
        Target(
            "ended",
            lambda: [b'{"schema_version": 1, "name": "b", "status": 3, "message": "x"}'],
            placed("7.0.trouble.json", lambda s: Place(s, "7", 0, ("a", "b"), 0).trouble()),
        ),
        Target(
            "matrix",
            lambda: [b'{"schema_version": 1, "recipes": ["mdlm"], "seeds": [1, 2]}'],
            placed("m.yaml", read_matrix),
        ),
        Target("words", lambda: [b"8G", b"duo=/a/folder@" + b"0" * 40], read_words, json=False),
    )
}

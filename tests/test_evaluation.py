"""Evaluations: of whole runs only, with an identity linked to the run's, told once."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gpt2_files
import pytest
from builtin.upstream import PINNED
from run_folders import CONFIG, SMOKE, SOURCE, completed_run, data, environment, nested, reading

from harness import evaluation, judging, launch, places, reuse
from harness.data import pins
from harness.data.places import Places
from harness.errors import HarnessError, Refused
from harness.evaluation import evaluate, evaluations, measured, ready
from harness.identity import Identity
from harness.launch import Launch
from harness.papers import Measured
from harness.plan import Choices, plan
from harness.project import Project
from harness.published import of_run
from harness.recipes import load
from harness.sandbox import Box
from harness.schemas import validate

__all__ = ["reading"]
pytestmark = pytest.mark.usefixtures("reading")
NAME = "validation-perplexity"
MIRRORS = {"mdlm": "kuleshov-group+mdlm/repo", "duo": "s-sahoo+duo/repo"}
Trainer = Callable[[Launch, float | None, int], None]


@pytest.fixture
def run(project: Project) -> Path:
    return completed_run(project)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    """A machine that has environment and data, and composes without a sandbox."""
    monkeypatch.setattr(launch, "realise", lambda project, name: environment(project))
    monkeypatch.setattr("harness.data.ready.inputs", lambda *_: data())
    monkeypatch.setattr(launch, "compose", lambda *_: CONFIG)
    monkeypatch.setattr("harness.plan.missing", lambda *_: [])
    monkeypatch.setattr(Launch, "box", lambda self: None)


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Trainer:
    """What an evaluation leaves: a value, or nothing, and a status."""

    def make(ready: Launch, value: float | None = 77.5, status: int = 0) -> None:
        def supervise(box: object, argv: list[str], out: Path, err: Path, poll: object) -> int:
            assert argv == list(ready.plan.argv)
            for log in (out, err):
                log.write_text("a line\n")
            row = {"step": 500} if value is None else {"step": 500, "validation_perplexity": value}
            (ready.plan.run / "output" / "metrics.jsonl").write_text(json.dumps(row) + "\n")
            return status

        monkeypatch.setattr(evaluation, "supervise", supervise)

    return make


def nothing(line: str) -> None:
    pass


def test_every_evaluation_fits_a_recipe() -> None:
    catalogue = load(SOURCE)
    project = Project(SOURCE, SOURCE)
    for entry in evaluations(project).values():
        assert set(entry.sources) <= {"builtin", *catalogue.tables["sources"]}
        assert entry.draw or any("{checkpoint}" in override for override in entry.append)
        assert entry.printed.keys() == set(entry.sources) - {"builtin"}
        known = pins.load(SOURCE)
        for key in entry.models:
            where = places.snapshot(key, known.model(key).revision).replace(places.ROOT, "{root}")
            assert where in entry.set.values()


def test_the_launch_is_the_runs_with_the_declared_changes(project: Project, run: Path) -> None:
    trained = plan(project, SMOKE)
    made = ready(project, run, NAME, nothing)
    changes = evaluations(project)[NAME].set
    assert changes["mode"] == "ppl_eval"
    expected = [
        f"{key}={changes.get(key, value)}"
        for key, _, value in (word.partition("=") for word in trained.overrides)
    ]
    expected.append(f"eval.checkpoint_path={reuse.CHECKPOINT}")
    assert list(made.plan.argv) == [*trained.argv[:2], *expected]
    mounts = {mount.target: mount for mount in made.plan.mounts}
    assert mounts[reuse.CHECKPOINT].source == run / "model.ckpt"
    assert [m.target for m in made.plan.mounts if m.writable] == [places.OUTPUT]
    assert mounts[places.OUTPUT].source.parent == made.plan.run
    assert not made.plan.run.is_relative_to(project.runs)


def test_a_result_is_linked_to_its_run_and_told_once(
    project: Project, run: Path, trainer: Trainer
) -> None:
    before = sorted(run.rglob("*"))
    made = ready(project, run, NAME, nothing)
    trainer(made, 77.5, 0)
    first = evaluate(made)
    assert (first.record["value"], first.skipped) == (77.5, False)
    identity = json.loads((first.folder / "identity.json").read_text())
    validate(identity, "evaluation", "test")
    validate(identity["launch"], "identity", "test")
    completed = json.loads((run / "completed.json").read_text())
    assert identity["run"]["identity_sha256"] == completed["identity_sha256"]
    trainer(made, 99.0, 1)
    assert evaluate(ready(project, run, NAME, nothing)).record == first.record
    assert sorted(run.rglob("*")) == before
    assert measured(project, run) == {"perplexity_bound": Measured(77.5, {})}
    assert {one.measured for one in of_run(project, run)} == {77.5, None}


def test_another_checkpoint_is_another_evaluation(
    project: Project, run: Path, trainer: Trainer
) -> None:
    made = ready(project, run, NAME, nothing)
    trainer(made, 77.5, 0)
    evaluate(made)
    other = completed_run(project, replace(SMOKE, seed=7))
    assert ready(project, other, NAME, nothing).identity.sha256 != made.identity.sha256
    assert measured(project, other) == {}
    (other / "renamed").parent.rename(project.runs / "away")
    run.rename(project.runs / "gone")
    (project.runs / "away").rename(run)
    with pytest.raises(Refused, match=r"holds another evaluation \(differs in "):
        evaluate(ready(project, run, NAME, nothing))


@pytest.mark.parametrize("name", ["completed.json", "identity.json", "output/metrics.jsonl"])
def test_an_altered_result_is_refused_and_not_believed(
    project: Project, run: Path, trainer: Trainer, name: str
) -> None:
    made = ready(project, run, NAME, nothing)
    trainer(made, 77.5, 0)
    where = evaluate(made).folder
    path = where / name
    path.write_text(path.read_text().replace("500", "501").replace("perplexity", "perplexitx", 1))
    assert measured(project, run) == {}
    with pytest.raises(Refused):
        evaluate(made)


def test_what_measures_nothing_is_no_result(project: Project, run: Path, trainer: Trainer) -> None:
    made = ready(project, run, NAME, nothing)
    trainer(made, None, 0)
    with pytest.raises(HarnessError, match="left no validation_perplexity"):
        evaluate(made)
    trainer(made, 77.5, 3)
    with pytest.raises(HarnessError, match="ended with status 3: a line"):
        evaluate(made)
    assert measured(project, run) == {}
    trainer(made, 77.5, 0)
    assert evaluate(made).record["value"] == 77.5


def test_only_a_whole_run_is_evaluated(project: Project, run: Path) -> None:
    with pytest.raises(Refused, match="unknown; one of"):
        ready(project, run, "other", nothing)
    (run / "stdout.log").write_bytes(b"x")
    with pytest.raises(Refused, match=r"stdout\.log has other bytes"):
        ready(project, run, NAME, nothing)
    (run / "completed.json").unlink()
    with pytest.raises(Refused, match="not found"):
        ready(project, run, NAME, nothing)


def test_it_must_fit(project: Project) -> None:
    paper = plan(project, Choices("flm", "lm1b"))
    entry = evaluations(project)[NAME]
    with pytest.raises(Refused, match="for builtin, mdlm, duo, not for flm"):
        evaluation.adapted(paper, entry, project.runs / "x", project)


TABLE = """
Validation DataLoader 0: 100%|██████████| 4/4 [00:00<00:00]
┏━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━┓
┃    Validate metric    ┃       DataLoader 0       ┃
┡━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━┩
│        val/bpd        │    4.250000953674316     │
│        val/ppl        │    70.10354614257812     │
│       val/ppl2        │           1.0            │
└───────────────────────┴──────────────────────────┘
"""
PLAIN = """
     Validate metric           DataLoader 0
         val/ppl            1.5e+02
"""


LINE = """Text samples: ['Generative perplexity: 3.5', 'x']
Generative perplexity: tensor(102.2500, device='cuda:0')
"""
LOGGED = """[2026-01-01 00:00:00,000][__main__][INFO] - Generative perplexity: 88.125
[2026-01-01 00:00:00,001][__main__][INFO] - Sample entropy: 4.1
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LINE, {"m": 102.25}),
        (LINE.replace(", device='cuda:0'", ""), {"m": 102.25}),
        (LOGGED, {"m": 88.125}),
        ("a Generative perplexity: 1.0\n", {}),
        ("Generative perplexity: no\n", {}),
    ],
)
def test_what_a_trainer_prints_on_a_line_is_read(
    tmp_path: Path, text: str, found: dict[str, float]
) -> None:
    (tmp_path / "stdout.log").write_text(text)
    assert evaluation.printed(tmp_path / "stdout.log", "Generative perplexity", "m") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [(TABLE, {"m": 70.10354614257812}), (PLAIN, {"m": 150.0}), (TABLE + PLAIN, {"m": 150.0})],
)
def test_what_a_trainer_prints_is_read(tmp_path: Path, text: str, found: dict[str, float]) -> None:
    (tmp_path / "stdout.log").write_text(text)
    assert evaluation.printed(tmp_path / "stdout.log", "val/ppl", "m") == found
    assert evaluation.printed(tmp_path / "stdout.log", "val/pp", "m") == {}


JUDGED = "generative-perplexity"


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose pins name a small GPT-2 by its digests, which lies in the cache."""
    project = gpt2_files.pinned(tmp_path / "source", tmp_path / "root")
    monkeypatch.setattr(judging, "realise", lambda project, name: environment(project))
    return project


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The sampler draws two rows; the judge runs as in the sandbox, in a process of its own."""
    started: list[list[str]] = []

    def supervise(box: object, argv: list[str], out: Path, err: Path, poll: object) -> int:
        started.append(argv)
        if argv[1:3] != ["-m", "judge"]:
            rows = [{"ids": [1, 2], "text": "one two"}, {"ids": [3], "text": "three"}]
            out.write_text("".join(json.dumps(row) + "\n" for row in rows))
            return 0
        assert isinstance(box, Box)
        shown = {mount.target: mount.source for mount in box.mounts}
        assert not any(mount.writable for mount in box.mounts)
        model = out.parent / "model"
        model.mkdir()
        for name in judging.FILES:
            (model / name).symlink_to(shown[f"{places.ROOT}/model/{name}"])
        samples = shown[f"{places.ROOT}/samples.jsonl"]
        command = [sys.executable, *argv[1:3], str(model), str(samples), argv[-1]]
        with out.open("wb") as told:
            cwd = shown[f"{places.ROOT}/judge"].parent
            subprocess.run(command, cwd=cwd, check=True, stdout=told)
        shutil.rmtree(model)
        return 0

    monkeypatch.setattr(evaluation, "supervise", supervise)
    return started


def test_samples_are_judged_by_the_pinned_model(judged: Project, programs: list[list[str]]) -> None:
    run = completed_run(judged)
    made = ready(judged, run, JUDGED, nothing)
    outcome = evaluate(made)
    assert len(programs) == 2
    assert {"mode=sample", "sampling.num_samples=64"} <= set(programs[0])
    assert programs[1][-1] == "128"
    assert outcome.record["metric"] == "generative_perplexity"
    assert outcome.record["metrics"]["rows"] == 2
    assert outcome.record["metrics"]["scored_tokens"] == len("one two") + len("three") - 2
    assert outcome.record["value"] > 1
    identity = json.loads((outcome.folder / "identity.json").read_text())
    validate(identity, "evaluation", "test")
    pins = json.loads((judged.source / "pins.json").read_text())["models"]["gpt2-large"]
    weights = identity["evaluation"]["judge"]["files"]["model.safetensors"]
    assert weights == pins["weights"]["model.safetensors"]
    assert {"samples.jsonl", "metrics.jsonl"} <= {
        entry["path"] for entry in outcome.record["files"]
    }
    assert evaluate(ready(judged, run, JUDGED, nothing)).skipped
    assert measured(judged, run)["generative_perplexity"].value == outcome.record["value"]
    assert {one.standing.value for one in of_run(judged, run)} == {"not comparable"}


def test_a_sampler_cannot_choose_what_the_judge_reads_or_says(
    judged: Project, programs: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"ids": [1], "text": "of the host"}\n')
    honest = evaluation.supervise
    shown: list[Path] = []

    def supervise(box: Any, argv: list[str], out: Path, err: Path, poll: Any) -> int:
        if isinstance(box, Box):
            shown.extend(m.source for m in box.mounts if m.target.endswith("samples.jsonl"))
            return honest(box, argv, out, err, poll)
        status = honest(box, argv, out, err, poll)
        output = err.parent / "output"  # all that a sampler can write to
        for name in ("samples.jsonl", "stdout.log"):
            (output / name).unlink(missing_ok=True)
            (output / name).symlink_to(secret)
        (output / "metrics.jsonl").write_text('{"generative_perplexity": 1.5, "made_up": 1}\n')
        return status

    monkeypatch.setattr(evaluation, "supervise", supervise)
    made = ready(judged, completed_run(judged), JUDGED, nothing)
    with pytest.raises(Refused, match="is a symbolic link"):
        evaluate(made)
    assert [path.resolve() for path in shown] == [made.plan.run / "samples.jsonl"]
    assert "of the host" not in shown[0].read_text()
    for name in ("samples.jsonl", "stdout.log"):
        (made.plan.run / "output" / name).unlink()
    record = evaluation._complete(made.plan.run, made.identity)
    assert record["value"] != 1.5
    assert "made_up" not in record["metrics"]


def test_a_link_in_the_samples_place_is_not_shown_to_the_judge(
    judged: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def supervise(box: object, argv: list[str], out: Path, err: Path, poll: object) -> int:
        assert not isinstance(box, Box)
        out.symlink_to(tmp_path / "secret")
        return 0

    monkeypatch.setattr(evaluation, "supervise", supervise)
    (tmp_path / "secret").write_text("x")
    with pytest.raises(Refused, match="samples.jsonl: cannot be opened as a plain file"):
        evaluate(ready(judged, completed_run(judged), JUDGED, nothing))


def test_what_an_attempt_left_is_gone_before_the_next(
    judged: Project, programs: list[list[str]]
) -> None:
    made = ready(judged, completed_run(judged), JUDGED, nothing)
    (made.plan.run / "output").mkdir(parents=True)
    for name in ("samples.jsonl", "samples.jsonl.1", "metrics.jsonl", "output/metrics.jsonl"):
        (made.plan.run / name).write_text('{"rows": 9}\n')
    nested(made.plan.run / "output", 1500)
    outcome = evaluate(made)
    assert outcome.record["metrics"]["rows"] == 2
    names = {entry["path"] for entry in outcome.record["files"]}
    assert not names & {"samples.jsonl.1", "output/metrics.jsonl"}


OWN = "own-generative-perplexity"


@pytest.mark.parametrize("model", ["mdlm", "duo"])
@pytest.mark.parametrize("profile", ["paper", "conform"])
def test_a_trainer_that_judges_itself_is_shown_the_pinned_judge(
    judged: Project, tmp_path: Path, model: str, profile: str
) -> None:
    trained = plan(judged, Choices(model, "lm1b", profile=profile))
    made = evaluation.adapted(trained, evaluations(judged)[OWN], tmp_path, judged)
    revision = pins.load(judged.source).model("gpt2-large").revision
    path = places.snapshot("gpt2-large", revision)
    (mount,) = [mount for mount in made.mounts if mount.target == path]
    assert (mount.source / "model.safetensors").is_file()
    assert not mount.writable
    told = [one for one in made.overrides if one.startswith("eval.gen_ppl_eval_model")]
    # Wherever the list names it: the last one counts.
    assert set(told) == {f"eval.gen_ppl_eval_model_name_or_path={path}"}
    assert {"mode=sample_eval", f"eval.checkpoint_path={reuse.CHECKPOINT}"} <= set(made.overrides)


@pytest.mark.parametrize("layout", ["files", "links to blobs"])
def test_a_trainer_can_read_every_file_of_its_judge(judged: Project, layout: str) -> None:
    model = judging.model(judged, "gpt2-large")
    snapshot = next(iter(model.files.values()))[0].parent
    if layout == "links to blobs":  # as the Hub's own client and our fetch leave them
        (snapshot.parents[1] / "blobs").mkdir()
        for number, path in enumerate(sorted(snapshot.iterdir())):
            path.rename(snapshot.parents[1] / "blobs" / str(number))
            path.symlink_to(f"../../blobs/{number}")
    shown = {mount.target: mount.source for mount in judging.mounts(judged, "gpt2-large")}
    inside = places.snapshot("gpt2-large", model.revision)
    for name in judging.FILES:
        path, below = shown[inside] / name, Path(inside, name)
        if path.is_symlink():
            below = Path(os.path.normpath(below.parent / path.readlink()))
            assert shown[str(below)].is_file()
        else:
            assert path.is_file()


def test_the_models_that_a_trainer_reads_decide_its_evaluation(judged: Project) -> None:
    model = judging.model(judged, "gpt2-large")
    launch = SimpleNamespace(
        identity=Identity({"a": 1}, ""), plan=SimpleNamespace(recipe=SimpleNamespace(source="mdlm"))
    )
    checkpoint = {"sha256": "0" * 64, "step": 1, "tensors": {}}
    completed = {"identity_sha256": "0" * 64, "checkpoint": checkpoint}
    entry = evaluations(judged)[OWN]
    made = [
        evaluation.identify(entry, completed, launch, models=[one])  # type: ignore[arg-type]
        for one in (model, replace(model, revision="1" * 40))
    ]
    assert made[0].sha256 != made[1].sha256
    recorded: Any = made[0].document["evaluation"]
    assert recorded["models"] == [model.record()]
    assert set(recorded["models"][0]["files"]) == set(judging.FILES)


def test_an_evaluation_of_another_upstream_says_which_fit(judged: Project, tmp_path: Path) -> None:
    trained = plan(judged, Choices("mdlm", "lm1b", profile="conform"))
    with pytest.raises(Refused, match="not for mdlm; for it: validation-perplexity, own-gen"):
        evaluation.adapted(trained, evaluations(judged)[JUDGED], tmp_path, judged)


def test_a_judge_that_is_not_here_or_not_the_pinned_one_is_refused(judged: Project) -> None:
    run = completed_run(judged)
    revision = json.loads((judged.source / "pins.json").read_text())["models"]["gpt2-large"]
    path = Places.of(judged).snapshot("model", "gpt2-large", revision["revision"])
    weights = path / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Refused, match=r"model\.safetensors: sha256 .*, on record is"):
        ready(judged, run, JUDGED, nothing)
    weights.unlink()
    with pytest.raises(
        Refused, match=r"no model\.safetensors in the cache; run 'harness fetch gpt2"
    ):
        ready(judged, run, JUDGED, nothing)


@pytest.mark.skipif("HARNESS_MIRRORS" not in os.environ, reason="no mirrors of the authors' code")
@pytest.mark.parametrize("model", ["mdlm", "duo"])
@pytest.mark.parametrize("dataset", ["lm1b", "owt"])
@pytest.mark.parametrize("profile", ["paper", "conform"])
def test_it_composes_on_the_authors_configuration(
    project: Project, tmp_path: Path, model: str, dataset: str, profile: str
) -> None:
    import yaml

    from harness.inside.compose import compose

    trained = plan(project, Choices(model, dataset, profile=profile))
    made = evaluation.adapted(trained, evaluations(project)[NAME], tmp_path, project)
    mirror = Path(os.environ["HARNESS_MIRRORS"], MIRRORS[model])
    git = ["git", f"--git-dir={mirror}", "archive", PINNED[mirror.parent.name]]
    archive = subprocess.run([*git, trained.recipe.config_dir], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(tmp_path)], input=archive.stdout, check=True)
    config = yaml.safe_load(
        compose(
            {
                "config_dir": str(tmp_path / trained.recipe.config_dir),
                "config_name": trained.recipe.config_name,
                "overrides": list(made.overrides),
                "devices": 1,
            }
        )
    )
    assert config["mode"] == "ppl_eval"
    assert config["eval"]["checkpoint_path"] == reuse.CHECKPOINT
    assert config["eval"]["disable_ema"] is False
    assert config["training"]["ema"] > 0.9
    assert config["checkpointing"]["resume_from_ckpt"] is False
    assert config["trainer"]["limit_val_batches"] is None

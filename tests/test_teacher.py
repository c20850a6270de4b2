"""Teachers as the user gives them, made ready: refused, adapted, reused, in the identity, audited.

The adapting tool runs on this host here; in the sandbox in tests/e2e.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run_folders
import teacher_files
from checkpoint_files import call, pickled, whole, write
from run_folders import SOURCE, Here, completed_run, launch, reading  # noqa: F401

from harness import adaptation, folder, places, sandbox
from harness.audit import Verdict, audit
from harness.chain import chain
from harness.errors import Refused
from harness.identity import identify
from harness.plan import Choices, plan
from harness.project import Project
from harness.recipes import load
from harness.sandbox import Box
from harness.schemas import read_record, validate

MDLM = Choices("mdlm", "lm1b", profile="smoke", name="mdlm")
SDTT = Choices("mdlm_sdtt", "lm1b", profile="smoke", name="sdtt")
CATALOGUE = load(SOURCE)
BASE = CATALOGUE.recipe("mdlm", "lm1b", "smoke").number("vocabulary")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(source=SOURCE, root=tmp_path)


class Outside:
    """Stands for the sandbox: runs the tool on this host, on the files behind its mounts."""

    def __init__(self) -> None:
        self.boxes: list[Box] = []

    def run(
        self, box: Box, command: Sequence[str], input: bytes = b"", timeout: float | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        self.boxes.append(box)
        there = {mount.target: str(mount.source) for mount in box.mounts}
        output = there[places.OUTPUT]
        words = [there.get(word, word).replace(places.OUTPUT, output) for word in command[1:]]
        return subprocess.run(
            [sys.executable, *words], capture_output=True, cwd=SOURCE / "harness", check=False
        )


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Outside:
    stand_in = Outside()
    monkeypatch.setattr(sandbox, "run", stand_in.run)
    return stand_in


@pytest.fixture
def real_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainers leave whole backbones; without it, one tensor."""
    plain = run_folders.trained

    def trained(ready: Any, *rest: Any) -> None:
        plain(ready, *rest)
        state = teacher_files.arrays(BASE, blocks=4)
        last = ready.plan.run / folder.OUTPUT / "checkpoints" / "last.ckpt"
        step = ready.plan.recipe.number("max_steps")
        teacher_files.checkpoint(last, state, step=step)

    monkeypatch.setattr(run_folders, "trained", trained)


def file_teacher(project: Project, blocks: int = 4) -> Path:
    return teacher_files.checkpoint(project.root / "t.ckpt", teacher_files.arrays(BASE, blocks))


def test_every_family_has_a_model_and_every_student_a_teacher() -> None:
    families = CATALOGUE.tables["families"]
    for family, model in families.items():
        for dataset in CATALOGUE.datasets(model):
            assert CATALOGUE.recipe(model, dataset).fields["family"] == family
    for model, dataset in CATALOGUE.pairs():
        recipe = CATALOGUE.recipe(model, dataset)
        wanted = recipe.fields.get("teacher_family")
        assert (CATALOGUE.teachers(recipe) == ()) == (wanted is None)
        assert all(dataset in CATALOGUE.datasets(model) for model in CATALOGUE.teachers(recipe))
        assert ("transformation" in recipe.fields) == ("teacher_blocks" in recipe.fields)


@pytest.mark.parametrize("given", ["mdlm", "mdlm/model.ckpt"])
def test_a_finished_run_is_taken_for_its_result(
    reading: None,  # noqa: F811
    project: Project,
    given: str,
) -> None:
    completed_run(project, MDLM)
    planned = plan(project, replace(SDTT, teachers=(project.runs / given,)))
    (teacher,) = planned.teachers
    assert teacher.run == project.runs / "mdlm"
    assert teacher.file == project.runs / "mdlm" / "model.ckpt"
    assert "teacher" not in {entry.name for entry in planned.inputs if entry.missing}


def test_an_unfinished_run_is_missing(reading: None, project: Project) -> None:  # noqa: F811
    run = completed_run(project, MDLM)
    (run / folder.COMPLETED).unlink()
    planned = plan(project, replace(SDTT, teachers=(run,)))
    assert any("mdlm is not finished; run its train" in line for line in planned.missing)


@pytest.mark.parametrize(
    ("teacher", "student", "said"),
    [
        (replace(MDLM, dataset="owt"), SDTT, "was trained on smoke-owt; mdlm_sdtt here learns"),
        (replace(MDLM, model="duo"), SDTT, "a duo run is of family uniform_duo; mdlm_sdtt needs"),
        (
            replace(MDLM, model="candi"),
            SDTT,
            "a candi run can teach nothing; mdlm_sdtt needs masked_mdlm",
        ),
    ],
)
def test_a_run_that_may_not_teach_is_refused_at_once(
    project: Project, teacher: Choices, student: Choices, said: str
) -> None:
    ready = launch(project, teacher)
    ready.plan.run.mkdir(parents=True)
    run_folders.run._write_records(ready.plan.run, ready)
    with pytest.raises(Refused, match=said) as refused:
        plan(project, replace(student, teachers=(ready.plan.run,)))
    assert "\n" not in str(refused.value)


def test_a_student_is_no_teacher(reading: None, project: Project) -> None:  # noqa: F811
    flm = completed_run(project, replace(MDLM, model="flm", name="flm"))
    fmlm = completed_run(project, replace(MDLM, model="fmlm", name="fmlm", teachers=(flm,)))
    with pytest.raises(Refused, match="a fmlm run can teach nothing; fmlm needs continuous_flm"):
        plan(project, replace(MDLM, model="fmlm", name="again", teachers=(fmlm,)))


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (replace(SDTT, teachers=(Path("runs"),)), "runs: holds no run"),
        (replace(SDTT, teachers=(Path("t.ckpt"),), teacher_weights="best"), "one of raw, ema"),
        (
            replace(MDLM, model="fmlm", teachers=(Path("t.ckpt"),), teacher_weights="raw"),
            "teacher weights raw: fmlm reads its teacher's file itself, and takes the ema ones",
        ),
        (
            replace(MDLM, model="duo_dcd", teachers=(Path("t.ckpt"),), teacher_weights="ema"),
            "teacher weights ema: duo_dcd reads its teacher's file itself, and takes the raw ones",
        ),
        (replace(MDLM, teacher_weights="raw"), "teacher weights raw: mdlm has no teacher"),
        (SDTT, "give --teacher FILE or RUN, or --with-teacher to train mdlm first"),
    ],
)
def test_a_teacher_that_cannot_be_is_refused_in_one_line(
    project: Project, choices: Choices, said: str
) -> None:
    project.runs.mkdir()
    with pytest.raises(Refused, match=said) as refused:
        plan(project, choices)
    assert "\n" not in str(refused.value)


def test_an_altered_run_is_refused(
    reading: None,  # noqa: F811
    outside: Outside,
    project: Project,
) -> None:
    run = completed_run(project, MDLM)
    (run / folder.STDOUT).write_bytes(b"other")
    with pytest.raises(Refused, match=r"stdout.log has other bytes than recorded"):
        launch(project, replace(SDTT, teachers=(run,)))
    assert not outside.boxes


def test_a_teacher_is_adapted_once_and_published_whole(outside: Outside, project: Project) -> None:
    choices = replace(SDTT, teachers=(file_teacher(project),))
    first, second = launch(project, choices), launch(project, choices)
    assert len(outside.boxes) == 1
    assert first.teachers == second.teachers
    assert first.identity == second.identity
    (home,) = (project.data / "teachers").iterdir()
    assert sorted(path.name for path in home.iterdir()) == ["model.ckpt", "provenance.json"]
    record = read_record(home / "provenance.json", "teacher")
    document: Any = first.identity.document
    validate(document, "identity", "test")
    assert document["transformation"]["output_sha256"] == record["output_sha256"]
    assert document["teacher"] == {
        "sha256": record["source_sha256"],
        "identity": None,
        "weights": "raw",
    }
    assert (record["source_vocabulary"], record["target_vocabulary"]) == (BASE, BASE + 1)
    assert (record["source_mask"], record["target_mask"]) == (103, BASE)
    mounted = [m.source for m in first.plan.mounts if m.target == places.TEACHER_FILE]
    assert mounted == [home / "model.ckpt"]


def test_the_sandbox_sees_the_teacher_and_one_folder_to_write(
    outside: Outside, project: Project
) -> None:
    launch(project, replace(SDTT, teachers=(file_teacher(project),)))
    (box,) = outside.boxes
    assert [m.target for m in box.mounts if m.writable] == [places.OUTPUT]
    assert not box.share_network
    assert project.root not in {mount.source for mount in box.mounts}


def test_raw_and_averaged_weights_are_two_launches(outside: Outside, project: Project) -> None:
    choices = replace(SDTT, teachers=(file_teacher(project),))
    raw, ema = (launch(project, replace(choices, teacher_weights=w)) for w in ("raw", "ema"))
    assert raw.identity.sha256 != ema.identity.sha256
    (raw_one,), (ema_one,) = raw.teachers, ema.teachers
    assert raw_one.sha256 == ema_one.sha256
    assert raw_one.transformation != ema_one.transformation
    assert raw.identity == launch(project, choices).identity


@pytest.mark.parametrize("spoil", ["model.ckpt", "provenance.json"])
def test_a_published_teacher_that_changed_is_refused(
    outside: Outside, project: Project, spoil: str
) -> None:
    choices = replace(SDTT, teachers=(file_teacher(project),))
    launch(project, choices)
    (path,) = (project.data / "teachers").glob(f"*/{spoil}")
    data = path.read_bytes()
    if spoil == "model.ckpt":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        path.write_text(json.dumps({**json.loads(data), "weights": "ema"}))
    with pytest.raises(Refused, match="remove it"):
        launch(project, choices)


def test_a_kill_leaves_nothing_that_is_taken(
    outside: Outside, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = replace(SDTT, teachers=(file_teacher(project),))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    for name in ("publish_json", "sync_folder", "sha256_file"):
        with monkeypatch.context() as patch:
            patch.setattr(adaptation, name, die)
            with pytest.raises(KeyboardInterrupt):
                launch(project, choices)
        homes = project.data / "teachers"
        assert not homes.exists() or not list(homes.iterdir())
    part = project.data / "teachers" / "x"
    launch(project, choices)
    (home,) = (project.data / "teachers").iterdir()
    shutil.move(home, part)
    part.rename(home.with_name(f".{home.name}.part"))  # what a kill without a handler leaves
    launch(project, choices)
    assert [path.name for path in homes.iterdir()] == [home.name]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda project: file_teacher(project, blocks=3), "a backbone of 3 blocks; the recipe's"),
        (
            lambda project: teacher_files.checkpoint(
                project.root / "t.ckpt", teacher_files.arrays(BASE + 2, 4)
            ),
            f"{BASE + 2} tokens; the dataset's tokenizer has {BASE}",
        ),
    ],
)
def test_another_network_is_refused_and_nothing_published(
    outside: Outside, project: Project, change: Callable[[Project], Path], said: str
) -> None:
    path = change(project)
    with pytest.raises(Refused, match=said) as refused:
        launch(project, replace(SDTT, teachers=(path,)))
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)
    assert not list((project.data / "teachers").iterdir())


def test_a_tool_that_answers_nonsense_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(box: Box, command: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        (output,) = (mount.source for mount in box.mounts if mount.writable)
        (output / "model.ckpt").write_bytes(b"x")
        return subprocess.CompletedProcess(list(command), 0, b'{"weights": "ema"}', b"")

    monkeypatch.setattr(sandbox, "run", run)
    with pytest.raises(Refused, match="schema teacher"):
        launch(project, replace(SDTT, teachers=(file_teacher(project),)))


def test_the_code_is_part_of_the_identity(
    outside: Outside, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = replace(SDTT, teachers=(file_teacher(project),))
    before = launch(project, choices).identity.sha256
    monkeypatch.setattr(adaptation, "code_sha256", lambda _: "0" * 64)
    assert launch(project, choices).identity.sha256 != before


def test_the_code_that_counts_is_all_there_is() -> None:
    """Each module that the tool imports is counted, or only reads what it is given."""
    inside = SOURCE / "harness" / "inside"
    readers = {"formats", "refusal", "tensors", "data"}
    for name in adaptation.CODE:
        lines = (inside / name).read_text().splitlines()
        used = {line.split()[1].removeprefix(".") for line in lines if line.startswith("from .")}
        assert used <= readers | {Path(counted).stem for counted in adaptation.CODE}, name


def test_a_plan_without_its_ready_teacher_has_no_identity(
    outside: Outside, project: Project
) -> None:
    ready = launch(project, replace(SDTT, teachers=(file_teacher(project),)))
    with pytest.raises(AssertionError):
        identify(project, ready.plan, ready.environment, ready.data, b"")


# The chain of launches.


def test_a_chain_trains_the_teacher_with_the_same_choices(project: Project) -> None:
    choices = replace(SDTT, seed=7, devices=2, per_device_batch=4, profile="paper")
    (first,), student = chain(project, choices)
    assert (first.choices.model, first.choices.dataset) == ("mdlm", "lm1b")
    assert (first.choices.profile, first.choices.seed) == ("paper", 7)
    assert first.devices == 2
    assert first.run == project.runs / "mdlm-lm1b-paper-seed7-1x2x64"
    assert student == replace(choices, teachers=(first.run,))
    assert any("does not exist; train it first" in line for line in plan(project, student).missing)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (MDLM, "--with-teacher: mdlm learns from no teacher"),
        (replace(SDTT, teachers=(Path("t"),)), "--with-teacher: --teacher t is one already"),
    ],
)
def test_a_chain_that_makes_no_sense_is_refused(
    project: Project, choices: Choices, said: str
) -> None:
    with pytest.raises(Refused, match=said):
        chain(project, choices)


def test_an_ensembles_chain_has_every_teacher(project: Project) -> None:
    choices = replace(MDLM, model="ensemble-geo-s2", dataset="jaweb")
    before, student = chain(project, choices)
    assert [one.choices.model for one in before] == ["twin-v42", "twin-s1", "twin-s2", "twin-s3"]
    assert student.teachers == tuple(one.run for one in before)


def twins(project: Project) -> tuple[Path, ...]:
    names = ("twin-v42", "twin-s1", "twin-s2", "twin-s3")
    return tuple(
        completed_run(
            project,
            replace(MDLM, model=name, dataset="jaweb", name=name),
            weights=(1.0, 2.0, 3.0 + number),
        )
        for number, name in enumerate(names)
    )


def test_an_ensembles_identity_has_each_teacher_by_family(
    reading: None,  # noqa: F811
    project: Project,
) -> None:
    given = twins(project)
    choices = replace(MDLM, model="ensemble-geo-s2", dataset="jaweb", teachers=given, name="s")
    run = completed_run(project, choices)
    identity = json.loads((run / folder.IDENTITY).read_text())
    assert [one["family"] for one in identity["teacher"]] == [path.name for path in given]
    assert len({one["sha256"] for one in identity["teacher"]}) == 4
    found = verdicts(project, run)
    for path in given:
        assert found[f"teacher {path.name}"] is Verdict.HOLDS
        assert found[f"teacher {path.name}'s identity"] is Verdict.HOLDS
    (given[2] / folder.STDOUT).write_bytes(b"other")
    assert verdicts(project, run)["teacher twin-s2: file stdout.log"] is Verdict.DIFFERS
    wrong = replace(choices, teachers=(given[1], *given[1:]), name="w")
    with pytest.raises(Refused, match="is of family twin-s1; ensemble-geo-s2 needs twin-v42"):
        plan(project, wrong)


# Audits of what was taught.


@pytest.fixture
def taught(
    reading: None,  # noqa: F811
    real_weights: None,
    outside: Outside,
    project: Project,
) -> Path:
    teacher = completed_run(project, MDLM)
    ready = launch(project, replace(SDTT, teachers=(teacher,)))
    run = ready.plan.run
    with folder.locked(run):
        run_folders.run._write_records(run, ready)
        record = run_folders.provenance.begin(run, ready)
        run_folders.trained(ready)
        student = run / folder.OUTPUT / "student_checkpoints"
        student.mkdir()
        step = ready.plan.recipe.number("selected_step")
        teacher_files.checkpoint(
            student / f"{step}.ckpt", teacher_files.arrays(BASE + 1, 4), step=step
        )
        run_folders.provenance.end(run, record, 0)
        run_folders.complete(run, ready)
    return run


def verdicts(project: Project, run: Path) -> dict[str, Verdict]:
    return {claim.name: claim.verdict for claim in audit(Here(project), run).claims}


def test_the_whole_chain_is_audited(project: Project, taught: Path) -> None:
    found = verdicts(project, taught)
    assert set(found.values()) == {Verdict.HOLDS}
    for name in (
        *("transformation", "transformation's code", "adapted teacher"),
        *("adapted teacher's record", "teacher", "teacher's identity", "teacher mdlm: identity"),
    ):
        assert name in found, name


def test_a_changed_adapted_teacher_is_seen(project: Project, taught: Path) -> None:
    (path,) = (project.data / "teachers").glob("*/model.ckpt")
    path.write_bytes(b"other")
    assert verdicts(project, taught)["adapted teacher"] is Verdict.DIFFERS


def test_an_adapted_teacher_that_is_gone_cannot_be_checked(project: Project, taught: Path) -> None:
    shutil.rmtree(project.data / "teachers")
    assert verdicts(project, taught)["adapted teacher"] is Verdict.UNCHECKED


def test_a_changed_teachers_run_is_seen(project: Project, taught: Path) -> None:
    (project.runs / "mdlm" / folder.STDOUT).write_bytes(b"other")
    assert verdicts(project, taught)["teacher mdlm: file stdout.log"] is Verdict.DIFFERS


def test_a_teachers_run_that_is_gone_cannot_be_checked(project: Project, taught: Path) -> None:
    shutil.rmtree(project.runs / "mdlm")
    found = verdicts(project, taught)
    assert found["teacher"] is Verdict.UNCHECKED
    assert found["adapted teacher"] is Verdict.HOLDS


DCD = Choices("duo_dcd", "lm1b", profile="smoke", teachers=(Path("t.ckpt"),))


@pytest.mark.parametrize(
    ("write_it", "said"),
    [
        (lambda path: path.write_bytes(pickled({})), r"old format \(bare pickles\)"),
        (lambda path: write(path, {"state_dict": call("os", "getpid")}, {}), "os.getpid: not amo"),
        (lambda path: write(path, {"global_step": 3}, {}), "holds no weights"),
        (
            lambda path: write(
                path,
                {"state_dict": {"w": whole("float32", "0", 1)}},
                {"0": np.array([np.nan], "<f4").tobytes()},
            ),
            "state_dict/w is not finite",
        ),
    ],
)
def test_a_file_that_a_trainer_reads_itself_is_read_before(
    reading: None,  # noqa: F811
    project: Project,
    write_it: Callable[[Path], object],
    said: str,
) -> None:
    project.root.mkdir(exist_ok=True)
    write_it(project.root / "t.ckpt")
    with pytest.raises(Refused, match=f"^teacher .*{said}"):
        launch(project, DCD)


@pytest.mark.parametrize(("model", "weights"), [("fmlm", "ema"), ("duo_dcd", "raw")])
@pytest.mark.parametrize("averaged", [True, False])
def test_the_record_says_which_weights_a_trainer_takes(
    reading: None,  # noqa: F811
    project: Project,
    model: str,
    weights: str,
    averaged: bool,
) -> None:
    project.root.mkdir(exist_ok=True)
    content: dict[str, object] = {"state_dict": {"w": whole("float32", "0", 1)}}
    if averaged:
        content["ema"] = {"shadow_params": [whole("float32", "1", 1)]}
    storages = {key: np.ones(1, "<f4").tobytes() for key in "01"[: 1 + averaged]}
    write(project.root / "t.ckpt", content, storages)
    if weights == "ema" and not averaged:
        with pytest.raises(Refused, match="holds no averaged weights"):
            launch(project, replace(DCD, model=model))
        return
    document: Any = launch(project, replace(DCD, model=model)).identity.document
    assert document["teacher"]["weights"] == weights

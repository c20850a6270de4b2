"""A plan decides everything, refuses what a recipe does not allow, and touches nothing."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Refused
from harness.plan import Choices, plan
from harness.project import Project
from harness.recipes import load

SOURCE = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(source=SOURCE, root=tmp_path)


def test_a_plan_touches_nothing(project: Project) -> None:
    planned = plan(project, Choices("mdlm", "lm1b"))
    json.dumps(planned.record())
    assert planned.missing
    assert list(project.root.iterdir()) == []


def test_two_roots_give_one_command(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Project(source=SOURCE, root=tmp_path_factory.mktemp("other d@e=[x]"))
    for model, dataset in load(SOURCE).pairs():
        choices = Choices(model, dataset, teachers=_teachers(model, dataset))
        one, two = (plan(p, choices) for p in (project, other))
        assert one.argv == two.argv
        assert one.variables == two.variables
        for text in (*one.argv, *one.variables.values()):
            assert str(project.root) not in text
            assert str(SOURCE) not in text


def _teachers(model: str, dataset: str) -> tuple[Path, ...]:
    families = load(SOURCE).recipe(model, dataset).teacher_families
    return tuple(Path("teacher.ckpt") for _ in families)


def test_the_published_defaults_give_the_published_batch(project: Project) -> None:
    for model, dataset in load(SOURCE).pairs():
        planned = plan(project, Choices(model, dataset, teachers=_teachers(model, dataset)))
        assert planned.effective_batch == planned.recipe.number("global_batch")


def test_an_ensembles_teachers_are_mounted_by_family(project: Project) -> None:
    names = ("a", "b", "c", "d")
    choices = Choices("ensemble-mix-s3", "jaweb", teachers=tuple(map(Path, names)))
    planned = plan(project, choices)
    found = {mount.target: mount.source.name for mount in planned.mounts}
    families = ("twin-v42", "twin-s1", "twin-s2", "twin-s3")
    for family, name in zip(families, names, strict=True):
        assert found[f"/run/harness/teacher/{family}.ckpt"] == name
    record = planned.record()["teacher"]
    assert isinstance(record, list)
    assert [one["family"] for one in record] == list(families)


def test_text_that_is_not_public_is_missing_not_an_error(project: Project) -> None:
    (line,) = plan(project, Choices("twin-s1", "jaweb")).missing
    assert "dataset jaweb: its text is not public" in line


@given(st.integers(1, 64), st.integers(1, 4), st.integers(1, 128))
def test_a_batch_divides_or_is_refused(devices: int, nodes: int, per_device: int) -> None:
    project = Project(source=SOURCE, root=Path("/nonexistent"))
    choices = Choices("duo", "owt", devices=devices, nodes=nodes, per_device_batch=per_device)
    if 512 % (devices * nodes * per_device):
        with pytest.raises(Refused, match="global batch 512: is no multiple of"):
            plan(project, choices, CATALOGUE)
    else:
        planned = plan(project, choices, CATALOGUE)
        assert planned.accumulation * devices * nodes * per_device == 512
        assert f"trainer.accumulate_grad_batches={planned.accumulation}" in planned.argv


CATALOGUE = load(SOURCE)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (Choices("mdlm", "lm1b", devices=0), "devices 0: must be a positive"),
        (Choices("mdlm", "lm1b", nodes=-1), "nodes -1: must be a positive"),
        (Choices("mdlm", "lm1b", per_device_batch=0), "per-device batch 0: must be a positive"),
        (Choices("mdlm", "lm1b", seed=-1), "seed -1: must lie in"),
        (Choices("mdlm", "lm1b", seed=1 << 32), "must lie in"),
        (Choices("mdlm", "lm1b", locked={"lr": "0.001"}), "lr 0.001: the recipe .* has 0.0003"),
        (Choices("mdlm", "lm1b", locked={"lr": "x"}), "lr x: the recipe"),
        (Choices("mdlm", "lm1b", locked={"rounds": "8"}), "rounds 8: mdlm has no such setting"),
        (Choices("duo_dcd", "lm1b"), "needs a teacher of family uniform_duo; give --teacher"),
        (Choices("mdlm", "lm1b", teachers=(Path("t"),)), "teacher t: mdlm has no teacher"),
        (
            Choices("ensemble-geo-s1", "jaweb"),
            "needs teachers of families twin-v42, twin-s1, .* FILE or RUN for each, or --with-",
        ),
        (
            Choices("ensemble-geo-s1", "jaweb", teachers=(Path("t"), Path("t"))),
            "2 teachers were given, it has 4: twin-v42, twin-s1, twin-s2, twin-s3; give",
        ),
        (
            Choices("ensemble-geo-s1", "jaweb", teachers=(Path("t"),) * 4, teacher_weights="ema"),
            "reads its teacher's file itself",
        ),
        (Choices("fmlm", "lm1b", teachers=(Path("/etc/x"),)), "lies outside"),
        (Choices("mdlm", "lm1b", student_init="scratch"), "only Di4C recipes have one"),
        (
            Choices("duo_di4c", "lm1b", teachers=(Path("t"),), student_init="big"),
            "student init big: unknown; one of hf_small, teacher, scratch",
        ),
        (
            Choices("duo_di4c", "lm1b", teachers=(Path("t"),), student_init="hf_small"),
            "student init hf_small: a model for owt, whose vocabulary is not that of lm1b",
        ),
    ],
)
def test_a_choice_the_recipe_does_not_allow_is_refused(
    project: Project, choices: Choices, said: str
) -> None:
    with pytest.raises(Refused, match=said) as refused:
        plan(project, choices)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "locked", [{"lr": "3e-4"}, {"global_batch": "512"}, {"lr": "0.00030", "global_batch": "512.0"}]
)
def test_an_equal_locked_value_is_accepted(project: Project, locked: dict[str, str]) -> None:
    plain = plan(project, Choices("mdlm", "lm1b"))
    assert plan(project, Choices("mdlm", "lm1b", locked=locked)).argv == plain.argv


def test_each_choice_shows_in_the_run_folders_name(project: Project) -> None:
    names = [
        plan(project, choices).run.name
        for choices in (
            Choices("mdlm", "lm1b"),
            Choices("mdlm", "owt"),
            Choices("mdlm", "lm1b", profile="smoke"),
            Choices("mdlm", "lm1b", seed=1),
            Choices("mdlm", "lm1b", devices=4),
            Choices("mdlm", "lm1b", nodes=2, devices=4),
            Choices("mdlm", "lm1b", name="mine"),
        )
    ]
    assert names[0] == "mdlm-lm1b-paper-seed42"
    assert names[-1] == "mine"
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["../out", "/abs", "a/b", "", ".hidden"])
def test_a_run_name_is_one_plain_folder(project: Project, name: str) -> None:
    with pytest.raises(Refused, match="name"):
        plan(project, Choices("mdlm", "lm1b", name=name))


def start_of(project: Project, tmp_path: Path, pinned: bool) -> list[str]:
    """What a student's published start lacks, its model pinned for OpenWebText or not."""
    known = json.loads((SOURCE / "pins.json").read_bytes())
    if pinned:
        about = {"kind": "hub", "repo": "jdeschena/sdtt", "revision": "a" * 40}
        known["models"]["sdtt"] = {**about, "files": {}, "weights": {"model.safetensors": "b" * 64}}
        known["datasets"]["owt"]["models"].append("sdtt")
    source = tmp_path / "harness"
    source.mkdir()
    for name in ("recipes.json", "upstreams.json"):
        shutil.copy(SOURCE / name, source)
    (source / "pins.json").write_text(json.dumps(known))
    choices = Choices("mdlm_di4c", "owt", teachers=(Path("t"),))
    planned = plan(replace(project, source=source), choices)
    assert planned.student_init == "hf_small"
    return [line for line in planned.missing if line.startswith("student's start: ")]


def test_a_published_start_must_be_pinned(project: Project, tmp_path: Path) -> None:
    (line,) = start_of(project, tmp_path, pinned=False)
    assert "'harness pin jdeschena/sdtt --revision baselines_kld_step_70000'" in line
    assert line.endswith("name it among the models of owt in pins.json")


def test_a_published_start_must_be_fetched(project: Project, tmp_path: Path) -> None:
    (line,) = start_of(project, tmp_path, pinned=True)
    assert line.endswith("model.safetensors does not exist; run 'harness fetch owt'")
    path = line.removeprefix("student's start: ").partition(" does not")[0]
    Path(path).parent.mkdir(parents=True)
    Path(path).touch()
    shutil.rmtree(tmp_path / "harness")
    assert start_of(project, tmp_path, pinned=True) == []

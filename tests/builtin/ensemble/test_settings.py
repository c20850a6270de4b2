"""Every setting has a range, and each refusal names its setting."""

import ensemble_runs
import pytest
from ensemble.settings import MAY_DIFFER, RULES, Refusal, check, flat, twin_differences


@pytest.mark.parametrize("name", RULES)
def test_each_setting_is_checked_by_name(root, name) -> None:
    config = ensemble_runs.settings(root, "x")
    check(config)
    for wrong in (-1, float("nan"), [], object()):
        with pytest.raises(Refusal) as refused:
            check(ensemble_runs.changed(config, name, wrong))
        assert str(refused.value).startswith(f"{name}=")
        assert "\n" not in str(refused.value)


def test_unknown_and_missing_settings_are_refused(root) -> None:
    config = ensemble_runs.settings(root, "x")
    with pytest.raises(Refusal, match="model.depth: no such setting"):
        check(ensemble_runs.changed(config, "model.depth", 3))
    del config["optim"]["lr"]
    with pytest.raises(Refusal, match="optim.lr: is missing"):
        check(config)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batch.windows": True}, "batch.windows=True: must be a whole number"),
        ({"model.heads": 3}, "model.width=8: no multiple of model.heads=3"),
        ({"crop.minimum": 17}, "crop.minimum=17: exceeds data.context"),
        (
            {"batch.microbatch": 3},
            "batch.windows=8: is not 1 devices x 1 nodes x 1 accumulated x 3",
        ),
        ({"mixture.epochs": 21}, "mixture.epochs=21: must be a whole number from 1 to 20"),
        ({"distillation.temperature": 2}, "distillation.temperature=2: must be"),
        ({"arm": "geo-v42"}, "stage=lm: a twin has no arm"),
        ({"stage": "distill"}, "arm=None: the pool and the member say None-v42"),
        ({"smoke_updates": None}, "formal training is on CUDA, in bf16, compiled"),
        ({"smoke_updates": 0}, "smoke_updates=0: must be a whole number from 1"),
        ({"device.precision": "bf16"}, "device.accelerator=cpu: trains in precision 32"),
    ],
)
def test_settings_at_odds_are_refused(root, changes, said) -> None:
    config = ensemble_runs.settings(root, "x")
    for name, value in changes.items():
        config = ensemble_runs.changed(config, name, value)
    with pytest.raises(Refusal, match=said):
        check(config)


def test_a_student_needs_four_teachers(root) -> None:
    config = ensemble_runs.student(root, "x", "geo-s1")
    check(config)
    with pytest.raises(Refusal, match="teachers.s3.file: is missing; a student has four"):
        check(ensemble_runs.changed(config, "distillation.teachers.s3.file", None))


def test_a_student_is_its_twin_but_for_the_declared_fields(root) -> None:
    twin = ensemble_runs.settings(root, "twin", member="s1")
    student = ensemble_runs.student(root, "x", "mix-s1", mixture__chat_fraction=0.3)
    assert twin_differences(student, twin) == []
    for name, value in flat(twin).items():
        other = "other" if isinstance(value, str) or value is None else value + 1
        found = twin_differences(student, ensemble_runs.changed(twin, name, other))
        free = any(name == one or name.startswith(f"{one}.") for one in MAY_DIFFER)
        assert [line.split(" ")[0] for line in found] == ([] if free else [name])

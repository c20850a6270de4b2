"""What a job asks of Slurm comes from the plan and the user, in the notation of sbatch."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Refused
from harness.plan import Choices, plan
from harness.project import Project
from harness.slurm.resources import OWN, Resources, minutes, pairs

PROJECT = Project(source=Path(__file__).parents[2], root=Path("/nonexistent"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90),
        ("90:30", 91),
        ("1:30:00", 90),
        ("0:00:01", 1),
        ("1-0", 1440),
        ("2-12:30", 3630),
        ("1-00:00:30", 1441),
    ],
)
def test_a_time_is_read_as_sbatch_reads_it(text: str, expected: int) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "9" * 23,
        "9" * 5000,
        "527041",
        "367-0",
        "",
        "0",
        "0-0",
        "-1",
        "1h",
        "1:2:3:4",
        "1-",
        "1.5",
        "\u0661",
        "1\n",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="--time"):
        minutes(text)


@given(st.integers(0, 9), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_all_notations_agree(days: int, hours: int, mins: int, seconds: int) -> None:
    if days + hours + mins + seconds == 0:
        return
    long = minutes(f"{days}-{hours}:{mins}:{seconds}")
    assert long == minutes(f"{24 * days + hours}:{mins}:{seconds}")
    assert long == minutes(f"{(24 * days + hours) * 60 + mins}:{seconds}")


def test_a_job_has_one_task_a_node_with_all_its_gpus() -> None:
    planned = plan(PROJECT, Choices("duo", "owt", devices=8, nodes=2))
    asked = Resources(time="1-0", partition="big", cpus_per_task=32, others=(("gres", "nvme"),))
    found = asked.parameters(planned, "name", "afterok:7")
    assert (found["nodes"], found["ntasks_per_node"], found["gpus_per_node"]) == (2, 1, 8)
    assert (found["time"], found["partition"], found["dependency"]) == (1440, "big", "afterok:7")
    assert "--cpus-per-task=32" in found["srun_args"]  # type: ignore[operator]
    assert found["additional_parameters"] == {
        "gres": "nvme",
        "requeue": True,
        "kill-on-invalid-dep": "yes",
    }
    assert "account" not in found


def test_a_recipe_on_a_cpu_asks_for_no_gpu() -> None:
    planned = plan(PROJECT, Choices("mdlm", "lm1b", profile="smoke"))
    assert "gpus_per_node" not in Resources(time="10").parameters(planned, "name", None)


def test_a_limit_that_leaves_no_time_to_train_is_refused() -> None:
    planned = plan(PROJECT, Choices("mdlm", "lm1b", profile="smoke"))
    with pytest.raises(Refused, match="no time to train before --save-seconds 120"):
        Resources(time="2").parameters(planned, "name", None)


def test_other_options_are_names_and_values() -> None:
    assert pairs(("gres=gpu:8", "comment=a b=c")) == (("gres", "gpu:8"), ("comment", "a b=c"))


@pytest.mark.parametrize("text", ["gres", "=1", "a=", "A=1", "a=1\n#SBATCH --uid=0", "a b=1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="expected NAME=VALUE"):
        pairs((text,))


@pytest.mark.parametrize(
    "text",
    ["time=5", "tim=5", "nodes=2", "node=2", "job-name=x", "requeue=x", "no-requeue=x", "array=0-9",
     "output=x", "dependency=1", "signal=9", "mem=1", "gpus=1", "ntasks=3"],
)  # fmt: skip
def test_what_the_harness_gives_itself_is_not_given_again(text: str) -> None:
    with pytest.raises(Refused, match="the harness gives --"):
        pairs((text,))


def test_an_option_stands_once() -> None:
    with pytest.raises(Refused, match="stands twice"):
        pairs(("gres=a", "gres=b"))


def test_every_option_that_a_job_has_is_known_as_its_own() -> None:
    planned = plan(PROJECT, Choices("duo", "owt", devices=8, nodes=2))
    full = Resources("1-0", "p", "a", "q", "c", "1G", 4)
    found = full.parameters(planned, "name", "afterok:7")
    others = found.pop("additional_parameters")
    ours = {name.replace("_", "-") for name in (*found, *others)}  # type: ignore[misc]
    assert ours - {"signal-delay-s", "srun-args"} <= set(OWN)

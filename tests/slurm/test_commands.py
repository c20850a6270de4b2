"""What Slurm's commands say, as its manual pages show it."""

import stat
from pathlib import Path

import pytest

from harness.errors import HarnessError, Refused
from harness.slurm import commands


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all of the search path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def tool(folder: Path, name: str, says: str, status: int = 0) -> None:
    path = folder / name
    stream = ">&2" if status else ""
    path.write_text(f"#!/bin/sh\nwhile read -r l; do echo \"$l\"; done {stream} <<'E'\n{says}\nE\n"
                    f"exit {status}\n")  # fmt: skip
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_without_slurm_a_submission_is_refused(tools: Path) -> None:
    with pytest.raises(Refused, match="sbatch, srun: not found"):
        commands.available()
    tool(tools, "sbatch", "")
    tool(tools, "srun", "")
    commands.available()


def test_a_nodes_address(tools: Path) -> None:
    tool(tools, "scontrol", "NodeName=n1 Arch=x86_64\n NodeAddr=10.0.0.7 NodeHostName=n1 Port=0")
    assert commands.node_address("n1") == "10.0.0.7"


def test_a_node_without_an_address_is_known_by_its_name(tools: Path) -> None:
    tool(tools, "scontrol", "NodeName=n1")
    assert commands.node_address("n1") == "n1"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("PreemptEligibleTime=2026-01-01T00:00:00 PreemptTime=None", False),
        ("PreemptEligibleTime=2026-01-01T00:00:00 PreemptTime=2026-01-01T01:00:00", True),
        ("JobId=7", False),
    ],
)
def test_whether_a_job_is_preempted(tools: Path, shown: str, expected: bool) -> None:
    tool(tools, "scontrol", shown)
    assert commands.preempted("7") is expected


def test_the_jobs_that_wait_or_run(tools: Path) -> None:
    tool(tools, "squeue", "7\n12_0\n12_3")
    assert commands.alive(["6", "7", "12_0", "12_1"]) == {"7", "12_0"}
    assert commands.alive([]) == set()


def test_an_arrays_waiting_jobs_may_be_shown_as_one(tools: Path) -> None:
    tool(tools, "squeue", "12_[1-3]")
    assert commands.alive(["12_1", "13_1"]) == {"12_1"}


def test_what_slurm_refuses_is_one_line(tools: Path) -> None:
    tool(tools, "scancel", "a warning\nscancel: error: Invalid job id 7", status=1)
    with pytest.raises(HarnessError, match="^scancel 7: scancel: error: Invalid job id 7$"):
        commands.cancel(["7"])


def test_a_command_that_is_not_there_is_refused(tools: Path) -> None:
    with pytest.raises(Refused, match="scancel: not found"):
        commands.cancel(["7"])

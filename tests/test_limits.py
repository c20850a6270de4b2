"""Limits: how they are given, where they can be set, and that they hold where they can."""

import importlib
import os
from dataclasses import replace
from pathlib import Path

import click
import pytest
import sandbox_base
from run_folders import SOURCE, data, environment
from sandbox_base import PYTHON

from harness import limits, places
from harness.errors import Refused
from harness.identity import Identity
from harness.launch import Launch
from harness.limits import Limits, Place, place, size
from harness.plan import Choices, plan
from harness.project import Project
from harness.sandbox import Mount
from harness.supervise import supervise

FORKS = """
import os
held = 0
try:
    for held in range(300):
        if os.fork() == 0:
            import time
            time.sleep(60)
except OSError:
    pass
print(held)
"""
SWALLOWS = "held = [bytearray(1 << 20) for _ in range(512)]; print(len(held))"
SHARED = "open('/dev/shm/x', 'wb').write(b'x' * (300 << 20)); print('kept')"


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("4096", 4096), ("3K", 3072), ("512M", 512 << 20), ("8G", 8 << 30)],
)
def test_sizes(text: str, number: int) -> None:
    assert size(text) == number


@pytest.mark.parametrize("text", ["", "0", "-1", "8g", "8 G", "1.5G", "G", "9" * 40, "8GB", "٣"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Refused, match=r"^--memory .*: must be a number of bytes"):
        size(text)


def test_no_task_at_all_is_refused() -> None:
    with pytest.raises(Refused, match="^--tasks 0: must be"):
        Limits.of(None, 0)


def hierarchy(root: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str]) -> None:
    monkeypatch.setattr(limits, "_own", lambda: own)
    root.mkdir(exist_ok=True)


def test_the_unified_hierarchy_is_used_where_it_hands_controllers_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hierarchy(tmp_path, monkeypatch, {"": "/user/me"})
    mine = tmp_path / "user/me"
    mine.mkdir(parents=True)
    (mine / "cgroup.controllers").write_text("cpu memory pids\n")
    with pytest.raises(Refused, match=r"--memory: cannot be limited here: .*me does not hand"):
        place("memory", tmp_path)
    (mine / "cgroup.subtree_control").write_text("memory pids\n")
    assert place("memory", tmp_path) == limits.Place(mine, unified=True)
    # The files are the kernel's to make; a plain folder stands for the group here.
    with limits.group(Limits(4096, 7), tmp_path) as group:
        (folder,) = set(group.folders.values())
        assert (folder / "memory.max").read_text() == "4096"
        assert (folder / "pids.max").read_text() == "7"
        assert not group.exhausted()
        (folder / "memory.events").write_text("oom 2\noom_kill 1\n")
        assert group.exhausted()
        for file in folder.iterdir():
            file.unlink()
    assert not folder.exists()


def test_the_older_hierarchy_is_used_where_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hierarchy(tmp_path, monkeypatch, {"memory": "/me", "pids": "/elsewhere"})
    for path in ("memory/me", "memory", "pids"):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
        (tmp_path / path / "cgroup.procs").touch()
    assert place("memory", tmp_path) == limits.Place(tmp_path / "memory/me", unified=False)
    assert place("pids", tmp_path) == limits.Place(tmp_path / "pids", unified=False)


def test_where_there_are_none_a_limit_is_refused_and_none_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="^--tasks: cannot be limited here: no control group"):
        place("pids", tmp_path)
    with limits.group(limits.NONE, tmp_path) as group:
        assert group.folders == {}
        assert not group.exhausted()


@pytest.mark.parametrize("name", ["train", "replicate", "evaluate", "sample"])
def test_commands_that_run_an_upstream_take_limits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hierarchy(tmp_path, monkeypatch, {"memory": "/", "pids": "/"})
    monkeypatch.setattr(limits, "place", lambda controller: Place(tmp_path, unified=False))
    command = importlib.import_module(f"harness.cli.{name}").command
    context = click.Context(command, obj=Project(source=tmp_path, root=tmp_path))
    words = ["mdlm", "lm1b"] if name == "train" else [str(tmp_path)]
    command.parse_args(context, [*words, "--memory", "2G", "--tasks", "7"])
    assert context.obj.limits == Limits(memory=2 << 30, tasks=7)
    with pytest.raises(Refused, match="^--tasks 0"):
        command.parse_args(context, [*words, "--tasks", "0"])


def test_a_trainers_sandbox_has_its_projects_limits(tmp_path: Path) -> None:
    limited = Project(source=SOURCE, root=tmp_path, limits=Limits(memory=1 << 30, tasks=9))
    planned = plan(limited, Choices("mdlm", "lm1b", "smoke"))
    launch = Launch(limited, planned, environment(limited), data(), b"", Identity({}, ""))
    assert launch.box().limits == limited.limits


def test_groups_of_killed_launches_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hierarchy(tmp_path, monkeypatch, {"pids": "/"})
    (tmp_path / "pids").mkdir()
    (tmp_path / "pids/cgroup.procs").touch()
    (tmp_path / "pids/harness-99999999").mkdir()
    (tmp_path / "pids/harness-1").mkdir()  # somebody is process 1
    with limits.group(Limits(tasks=3), tmp_path) as group:
        assert not (tmp_path / "pids/harness-99999999").exists()
        assert (tmp_path / "pids/harness-1").exists()
        (group.folders["pids"] / "pids.max").unlink()


def _can(controller: str) -> bool:
    try:
        place(controller)
    except Refused:
        return False
    return True


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("controller", "limit", "code", "status", "said"),
    [
        ("pids", Limits(tasks=40), FORKS, 0, range(20, 40)),
        ("memory", Limits(memory=200 << 20), SWALLOWS, 137, None),
        ("memory", Limits(memory=200 << 20), SHARED, 137, None),
    ],
    ids=["a fork bomb", "memory", "memory of scratch files"],
)
def test_limits_hold(
    base: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    controller: str,
    limit: Limits,
    code: str,
    status: int,
    said: range | None,
) -> None:
    if not _can(controller):
        pytest.skip(f"no control group with {controller} can be made here")
    output = tmp_path / "output"
    output.mkdir()
    box = sandbox_base.box(base, Mount(output, places.OUTPUT, writable=True))
    logs = tmp_path / "out", tmp_path / "err"
    found = supervise(replace(box, limits=limit), [PYTHON, "-c", code], *logs, lambda: False)
    assert found == status
    if said is not None:
        assert int(logs[0].read_text().split()[0]) in said
    else:
        assert logs[0].read_text() == ""
        assert f"limit of {200 << 20} bytes of memory" in capfd.readouterr().err
    assert not list(place(controller).folder.glob(f"harness-{os.getpid()}"))
    assert supervise(box, [PYTHON, "-c", "print(1)"], *logs, lambda: False) == 0

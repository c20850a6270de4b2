"""What the doctor finds on machines that lack something."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from test_gpu import CARD, SYS, tree

from harness import doctor, nix
from harness.cli.doctor import command
from harness.errors import HarnessError
from harness.probe import Check
from harness.project import Project

OK, WARN, FAIL = (Check("a", state, "found", "mend") for state in ("ok", "warn", "fail"))  # type: ignore[arg-type]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty root."""
    return Project(source=tmp_path, root=tmp_path)


def without(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make one of nix.py's questions fail."""

    def fail() -> None:
        raise HarnessError("not there")

    monkeypatch.setattr(nix, name, fail)


@pytest.mark.parametrize(
    ("checks", "expected"), [([OK], True), ([OK, WARN], True), ([OK, FAIL], False)]
)
def test_only_a_failure_stands_in_the_way(checks: list[Check], expected: bool) -> None:
    assert doctor.ready(checks) is expected


@pytest.mark.parametrize(("uid", "state"), [(0, "warn"), (1000, "ok")])
def test_root_is_warned(
    project: Project, monkeypatch: pytest.MonkeyPatch, uid: int, state: str
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: uid)
    assert doctor.user(project).state == state


def test_git_is_needed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.git(project).state == "ok"
    monkeypatch.setenv("PATH", "/nowhere")
    assert doctor.git(project).state == "fail"


@pytest.mark.parametrize(
    ("version", "state"), [("2.8.0", "ok"), ("2.28.3", "ok"), ("2.3.16", "fail")]
)
def test_nix_must_be_new_enough(
    project: Project, monkeypatch: pytest.MonkeyPatch, version: str, state: str
) -> None:
    monkeypatch.setattr(nix, "version", lambda: version)
    assert doctor.nix_itself(project).state == state


def test_nix_and_a_base_are_needed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "version")
    without(monkeypatch, "base")
    for check in (doctor.nix_itself(project), doctor.base(project)):
        assert (check.state, check.found) == ("fail", "not there")
        assert "bootstrap" in check.mend


def test_the_base_is_named(project: Project, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_BASE", str(base))
    check = doctor.base(project)
    assert check.state == "ok"
    assert "Python 3.11" in check.found


@pytest.mark.parametrize(("free", "state"), [(1, "fail"), (20, "warn"), (200, "ok")])
def test_disk(project: Project, monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    usage = SimpleNamespace(free=free * doctor.GIB)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    assert doctor.disk(project).state == state


def test_the_cache_must_be_writable(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.cache(project).state == "ok"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert doctor.cache(project).state == "fail"


def test_no_gpu_is_no_failure(project: Project, tmp_path: Path) -> None:
    assert doctor.graphics(project, tmp_path, "").state == "warn"


VERSION = "proc/driver/nvidia/version"
CUDA = "usr/lib/wsl/lib/libcuda.so.1"


@pytest.mark.parametrize(
    ("files", "version", "state", "word"),
    [
        ((*CARD, *SYS, CUDA), "550.54.15", "ok", "CUDA up to 12"),
        ((*CARD, *SYS, CUDA), "390.157", "fail", "390.157"),
        ((*CARD, *SYS), "550.54.15", "fail", "libcuda"),
        ((*CARD, CUDA), "550.54.15", "fail", "/sys"),
        ((*SYS, CUDA), "550.54.15", "fail", "/dev/nvidia0"),
        ((*SYS, CUDA, "dev/nvidia0", "dev/nvidiactl"), "550.54.15", "fail", "nvidia-uvm"),
        ((*CARD, *SYS, CUDA), None, "fail", "unknown"),
    ],
)
def test_a_gpu_host(
    project: Project,
    tmp_path: Path,
    files: tuple[str, ...],
    version: str | None,
    state: str,
    word: str,
) -> None:
    root = tree(tmp_path, *files)
    if version:
        tree(root, VERSION)
        (root / VERSION).write_text(f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}\n")
    check = doctor.graphics(project, root, "")
    assert check.state == state
    assert word in check.found
    assert check.mend or state == "ok"


@pytest.mark.parametrize(("symbol", "state"), [(b"GLIBC_2.2", "ok"), (b"GLIBC_2.99", "fail")])
def test_the_driver_must_not_need_a_newer_c_library(
    project: Project,
    tmp_path: Path,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
    symbol: bytes,
    state: str,
) -> None:
    monkeypatch.setenv("HARNESS_BASE", str(base))
    (tree(tmp_path, CUDA) / CUDA).write_bytes(b"\0" + symbol + b"\0")
    assert doctor.driver_libraries(project, tmp_path, "").state == state


def test_control_groups_are_looked_for(project: Project, tmp_path: Path) -> None:
    found = doctor.control_groups(project, tmp_path)
    assert (found.state, found.found) == ("warn", "no control group here has this controller")
    assert "systemd-run" in found.mend
    for controller in ("memory", "pids"):
        (tmp_path / controller).mkdir()
        (tmp_path / controller / "cgroup.procs").touch()
    assert doctor.control_groups(project, tmp_path).state == "ok"


@pytest.mark.parametrize(("check", "status"), [(WARN, 0), (FAIL, 1)])
@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_prints_and_exits(
    project: Project, monkeypatch: pytest.MonkeyPatch, check: Check, status: int, as_json: bool
) -> None:
    monkeypatch.setattr("harness.cli.doctor.examine", lambda project: [OK, check])
    result = CliRunner().invoke(command, ["--json"] if as_json else [], obj=project)
    assert result.exit_code == status
    if as_json:
        assert [one["state"] for one in json.loads(result.output)] == ["ok", check.state]
    else:
        assert "mend" in result.output


def test_every_check_runs_here(project: Project) -> None:
    names = [check.name for check in doctor.examine(project)]
    assert len(names) == len(set(names))
    assert len(names) > len(doctor.CHECKS)

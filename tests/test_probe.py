"""Trying what the sandbox needs: for real, and against programs that fail as bubblewrap would."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness import probe
from harness.probe import Check, cgroup_namespace, forbidding_setting


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program called bwrap, of this version and behaviour, first on PATH."""
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def states(checks: list[Check]) -> dict[str, str]:
    """Names and states."""
    return {check.name: check.state for check in checks}


@pytest.mark.e2e
def test_probe_finds_everything_working_where_the_sandbox_works() -> None:
    checks = probe.probe()
    assert [check for check in checks if check.state == "fail"] == []
    assert len(checks) == len(probe.STEPS) + 4


def test_probe_stops_without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (check,) = probe.probe()
    assert (check.name, check.state) == ("bubblewrap", "fail")
    assert "package bubblewrap" in check.mend


@pytest.mark.parametrize(
    ("version", "state"), [("0.8.0", "ok"), ("0.11.2", "ok"), ("0.7.9", "fail")]
)
def test_bubblewrap_must_be_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, state: str
) -> None:
    fake(tmp_path, monkeypatch, f"echo bubblewrap {version}")
    assert probe.bubblewrap().state == state


def test_probe_names_the_step_that_a_container_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = 'case "$*" in *"--proc /proc"*) echo "bwrap: cannot mount proc" >&2; exit 1;; esac'
    fake(tmp_path, monkeypatch, f"{refuse}\necho bubblewrap 0.8.0")
    checks = probe.probe()
    (bad,) = [check for check in checks if check.state == "fail"]
    assert (bad.name, bad.found) == ("process namespace", "bwrap: cannot mount proc")
    assert "systempaths=unconfined" in bad.mend


@pytest.mark.e2e
def test_probe_stops_where_user_namespaces_are_forbidden() -> None:
    """Inside a sandbox that forbids them."""
    code = """
import json
from harness.probe import probe
print(json.dumps([[check.name, check.state] for check in probe()]))
"""
    outer = ["bwrap", "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"]
    root = Path(probe.__file__).parents[1]
    done = subprocess.run(
        [*outer, sys.executable, "-c", code], cwd=root, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == [["bubblewrap", "ok"], ["user namespace", "fail"]]


@pytest.mark.parametrize(("name", "value", "mend"), probe.SETTINGS)
def test_a_forbidding_setting_is_named(tmp_path: Path, name: str, value: str, mend: str) -> None:
    assert forbidding_setting(tmp_path) == probe.CONTAINER
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(f"{value}\n")
    assert forbidding_setting(tmp_path) == mend
    (tmp_path / name).write_text("12345\n")
    assert forbidding_setting(tmp_path) == probe.CONTAINER


def test_cgroup_namespaces_are_said_to_be_missing(tmp_path: Path) -> None:
    assert cgroup_namespace(tmp_path).state == "warn"
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/cgroup").symlink_to("cgroup:[1]")
    assert cgroup_namespace(tmp_path).state == "ok"

"""The launcher (nix/launch) finds the environment that the harness would build."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import nix
from harness.project import Project

CHECKOUT = Path(__file__).parents[2]


class Machine:
    """A source, a state folder, and stand-ins for the base's loader and the user's Python."""

    def __init__(self, here: Path) -> None:
        self.source, self.home = here / "source", here / "home"
        for part in ("nix", "envs"):
            shutil.copytree(CHECKOUT / part, self.source / part)
        (self.source / "tests").mkdir()
        (self.source / "tests/__main__.py").touch()
        self.state, base = self.home / "diffusion-harness", here / "base"
        self.state.mkdir(parents=True)
        for name, text in (
            ("base/lib/ld-linux-x86-64.so.2", 'echo "$@"'),
            ("python3.11", 'echo builds "$4"; exit 7'),
        ):
            program = here / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
        facts = {"kind": "captured", "python": "3.11.7", "system": "x86_64-linux", "glibc": "2"}
        places = {"loader": "lib/ld-linux-x86-64.so.2", "libraries": "lib"}
        (base / "base.json").write_text(json.dumps(facts | places))
        (self.state / "base").symlink_to(base)
        (self.state / "python").symlink_to(here / "python3.11")

    def says(self, app: str) -> str:
        """What the launcher says as `app`, whether it starts it or has its environment built."""
        program = self.home / app
        program.unlink(missing_ok=True)
        program.symlink_to(self.source / "nix/launch")
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        return subprocess.run(
            [str(program), "word"],
            cwd=self.source,
            env=environment | {"XDG_STATE_HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    def link(self, name: str) -> Path:
        """Where the harness looks for an environment."""
        return nix.link(Project(self.source, self.source), name)

    def build(self, name: str) -> None:
        """Pretend that an environment is built."""
        self.link(name).mkdir(parents=True)
        (self.link(name) / "pyvenv.cfg").touch()

    def touch(self, lock: str) -> None:
        """Another text of a lock."""
        with (self.source / "envs" / f"{lock}.json").open("a") as file:
            file.write("\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(machine.home))
    monkeypatch.delenv("HARNESS_BASE", raising=False)
    return machine


@pytest.mark.parametrize(("app", "name"), [("plan", "cli"), ("test", "test")])
def test_it_starts_what_is_built(machine: Machine, app: str, name: str) -> None:
    assert machine.says(app) == f"builds {name}\n"
    machine.build(name)
    module = "tests test" if app == "test" else "harness plan"
    assert machine.says(app).endswith(f"-m {module} word\n")


def chain(name: str) -> set[str]:
    """All locks that an environment's own stands on, itself and the build tools' included."""
    parents = json.loads((CHECKOUT / "envs" / f"{name}.json").read_text())["extends"]
    return {"build", name}.union(*map(chain, parents))


LOCKS = sorted(path.stem for path in (CHECKOUT / "envs").glob("*.json"))


@pytest.mark.parametrize("name", ["cli", "test", "di4c"])
@pytest.mark.parametrize("changed", LOCKS)
def test_only_a_lock_of_its_own_chain_makes_another(
    machine: Machine, name: str, changed: str
) -> None:
    before = machine.link(name)
    machine.touch(changed)
    assert (machine.link(name) != before) is (changed in chain(name))


@pytest.mark.parametrize("changed", LOCKS)
def test_so_it_is_for_the_launcher(machine: Machine, changed: str) -> None:
    machine.build("test")
    machine.touch(changed)
    assert machine.says("test").startswith("builds") is (changed in chain("test"))

"""Building environments: what is in them, that it is the same each time, what is refused."""

import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from test_lock import wheel

from harness import nix
from harness.errors import HarnessError, Refused
from harness.files import sha256_file
from harness.project import Project

from .conftest import MakeLock

pytestmark = pytest.mark.e2e


def run(environment: nix.Environment, code: str) -> str:
    """Run code in the environment, on this host, with no variable set."""
    command = environment.base.command(environment.path, "-sP", "-c", code)
    return subprocess.run(command, env={}, capture_output=True, text=True, check=True).stdout


def sdist(folder: Path) -> Path:
    """A source distribution with a setup.py that imports what is beside it."""
    tree = folder / "olden-1.0"
    tree.mkdir()
    (tree / "setup.py").write_text(
        "import olden\nfrom setuptools import setup\n"
        "setup(name='olden', version=olden.version, py_modules=['olden'])\n"
    )
    (tree / "olden.py").write_text("age, version = 99, '1.0'\n")
    path = folder / "index" / "olden-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tree, "olden-1.0")
    return path


def test_an_environment_imports_its_wheels_and_nothing_else(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    file = wheel(tmp_path / "index", "leaf", "1.0")
    make_lock("one", file)
    made = nix.realise(project, "one")
    assert run(made, "import leaf; print(leaf.version)") == "1.0\n"
    path = run(made, "import sys; print(sys.prefix, *sys.path, sep='\\n')").split()
    assert path[0] == str(made.path)
    assert all(Path(p).is_relative_to(made.path) or made.base.path in Path(p).parents for p in path)
    record = json.loads((made.path / "environment.json").read_text())
    assert record["wheels"] == [
        {"name": "leaf", "version": "1.0", "file": file.name, "sha256": sha256_file(file)}
    ]
    assert record["lock_sha256"] == made.lock_sha256 == nix.lock_sha256(project, "one")
    assert made.base.path in made.closure
    assert made.path in made.closure


def test_folders_are_real_and_files_are_links(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    make_lock("one", wheel(tmp_path / "index", "leaf", "1.0"))
    made = nix.realise(project, "one")
    site = made.path / "lib/python3.11/site-packages"
    assert (site / "leaf.py").is_symlink()
    assert not any(path.is_symlink() and path.is_dir() for path in site.rglob("*"))


def test_it_is_found_again_without_a_build(
    project: Project, make_lock: MakeLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_lock("one", wheel(tmp_path / "index", "leaf", "1.0"))
    assert nix.realised(project, "one") is None
    made = nix.realise(project, "one")
    monkeypatch.setenv("PATH", "")  # neither Nix nor pip
    assert nix.realised(project, "one") == made
    assert nix.realise(project, "one") == made


def test_another_lock_is_another_environment(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    make_lock("one", wheel(tmp_path / "index", "leaf", "1.0"))
    first = nix.realise(project, "one")
    make_lock("one", wheel(tmp_path / "index", "leaf", "2.0"))
    assert nix.realised(project, "one") is None
    second = nix.realise(project, "one")
    assert first.path != second.path
    assert first.lock_sha256 != second.lock_sha256


def test_building_again_gives_the_same_bytes(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    make_lock("one", wheel(tmp_path / "index", "leaf", "1.0"), sdist(tmp_path))
    made = nix.realise(project, "one")
    built = [path for path in made.closure if path != made.base.path]
    assert len(built) == 3
    for path in built:
        query = ["nix-store", "--query", "--deriver", str(path)]
        deriver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
        again = ["nix-store", "--realise", "--check", deriver]
        done = subprocess.run(again, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_source_distribution_is_built_offline(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    make_lock("one", sdist(tmp_path))
    assert run(nix.realise(project, "one"), "import olden; print(olden.age)") == "99\n"


def test_an_extended_lock_is_part_of_it(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    make_lock("one", wheel(tmp_path / "index", "leaf", "1.0"))
    make_lock("two", wheel(tmp_path / "index", "tree", "1.0"), extends=("one",))
    make_lock("three", extends=("one", "two"))
    made = nix.realise(project, "three")
    assert run(made, "import leaf, tree; print(leaf.version, tree.version)") == "1.0 1.0\n"


def test_two_wheels_with_one_file_are_refused_by_their_names(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    one, other = (wheel(tmp_path / "index", "leaf", version) for version in ("1.0", "2.0"))
    make_lock("one", one)
    make_lock("two", other, extends=("one",))
    with pytest.raises(HarnessError, match="leaf-1.0 and leaf-2.0 both have it") as refused:
        nix.realise(project, "two")
    assert "leaf.py" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_cannot_be_fetched_is_one_line(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    file = wheel(tmp_path / "index", f"t{tmp_path.parent.name.replace('-', '')}", "1.0")
    make_lock("one", file)
    file.unlink()
    with pytest.raises(HarnessError, match="PIP_FIND_LINKS") as refused:
        nix.realise(project, "one")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_in_the_store_fails_by_a_command(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    make_lock("one", wheel(tmp_path, f"u{tmp_path.parent.name.replace('-', '')}", "1.0"))
    expression = ["nix-build", str(project.source / "nix/build"), "--attr", "environment"]
    arguments = ["--argstr", "base", str(nix.base().path), "--argstr", "name", "one"]
    done = subprocess.run(
        [*expression, *arguments, "--no-out-link"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "nix/prefetch.py" in done.stderr


@pytest.mark.parametrize("name", ["nowhere", "../envs/one", "One"])
def test_an_unknown_environment_is_refused(project: Project, name: str) -> None:
    with pytest.raises(Refused, match="no lock of it in envs/, which has build"):
        nix.realise(project, name)


def test_a_lock_for_another_platform_is_refused(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    make_lock("one", wheel(tmp_path / "index", "leaf", "1.0"))
    path = project.source / "envs/one.json"
    path.write_text(path.read_text().replace("x86_64", "riscv64"))
    with pytest.raises(HarnessError, match="is locked for riscv64-linux"):
        nix.realise(project, "one")


def test_scripts_are_left_out(tools: nix.Environment) -> None:
    # `wheel` has one as an entry point.
    assert {path.name for path in (tools.path / "bin").iterdir()} == {"python3", "python3.11"}


def test_a_changed_store_path_is_noticed(
    project: Project, make_lock: MakeLock, tmp_path: Path
) -> None:
    make_lock("one", wheel(tmp_path / "index", "leaf", "1.0"))
    made = nix.realise(project, "one")
    assert nix.verify_path(made.path)
    assert not nix.verify_path(Path("/nix/store/00000000000000000000000000000000-none"))


def test_nix_says_its_version() -> None:
    assert nix.version()[0].isdigit()

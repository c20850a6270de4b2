"""The flake's outputs, evaluated without a network."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.cli.main import COMMANDS

SOURCE = Path(__file__).parents[2]

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The flake's own files, without what else lies in a checkout."""
    tree = tmp_path_factory.mktemp("flake") / "tree"
    tree.mkdir()
    for name in ("flake.nix", "flake.lock", "upstreams.nix", "upstreams.json"):
        shutil.copy(SOURCE / name, tree)
    for name in ("nix", "envs"):
        shutil.copytree(SOURCE / name, tree / name, symlinks=True)
    return tree


def nix(tree: Path, *words: str, cwd: Path | None = None) -> str:
    """Run nix with every proxy leading nowhere: what it evaluates must not need a network."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    command = ["nix", "--extra-experimental-features", "nix-command flakes", *words]
    done = subprocess.run(
        command,
        cwd=cwd or tree,
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_check_and_show_need_no_nixpkgs(tree: Path) -> None:
    nix(tree, "flake", "check", f"path:{tree}")
    assert json.loads(nix(tree, "flake", "show", "--json", f"path:{tree}"))["apps"]


@pytest.mark.parametrize("system", ["x86_64-linux", "aarch64-linux"])
def test_every_command_is_an_app(tree: Path, system: str) -> None:
    apps = json.loads(
        nix(tree, "eval", "--json", f"path:{tree}#apps.{system}", "--apply", "builtins.attrNames")
    )
    assert set(apps) == {*COMMANDS, "test"}


def test_nixpkgs_is_locked_by_its_hash() -> None:
    locked = json.loads((SOURCE / "flake.lock").read_text())["nodes"]["nixpkgs"]["locked"]
    assert locked["rev"] == "ac62194c3917d5f474c1a844b6fd6da2db95077d"
    assert locked["narHash"].startswith("sha256-")


def test_the_nixpkgs_base_has_the_places_of_a_captured_one() -> None:
    here = Path(__file__).parent
    places = json.loads(
        nix(here, "eval", "--impure", "--json", "--file", str(here / "stub-nixpkgs.nix"))
    )
    assert {
        "base.json",
        "bin/python3",
        "bin/python3.11",
        "bin/sh",
        "lib/ld-linux-x86-64.so.2",
        "lib/libc.so.6",
        "lib/libstdc++.so.6",
        "lib/python3.11",
    } <= places.keys()
    record = json.loads(places["base.json"])
    assert (record["kind"], record["glibc"]) == ("nixpkgs", "2.40")
    assert record["loader"] in places


def test_an_upstream_is_the_same_path_from_any_copy(tmp_path: Path) -> None:
    first = tmp_path / "first"
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C"]
    subprocess.run(["git", "init", "--quiet", str(first)], check=True)
    (first / "main.py").write_text("print('upstream')\n")
    subprocess.run([*git, str(first), "add", "main.py"], check=True)
    subprocess.run([*git, str(first), "commit", "--quiet", "-m", "one"], check=True)
    head = subprocess.run(
        [*git, str(first), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    subprocess.run(
        ["git", "clone", "--quiet", "--bare", str(first), str(tmp_path / "second")], check=True
    )
    shutil.copy(SOURCE / "upstreams.nix", tmp_path)

    def path(mirror: Path, **pin: str) -> str:
        entry = {"owner": "o", "repo": "r", "rev": head, **pin}
        (tmp_path / "upstreams.json").write_text(json.dumps({"upstreams": {"one": entry}}))
        fetched = f'((import {tmp_path}/upstreams.nix).fetch "one" {{ url = "file://{mirror}"; }})'
        return nix(tmp_path, "eval", "--impure", "--raw", "--expr", f"{fetched}.outPath")

    assert path(first) == path(tmp_path / "second")
    with pytest.raises(AssertionError, match="NAR hash mismatch"):
        path(first, narHash="sha256-" + "A" * 43 + "=")

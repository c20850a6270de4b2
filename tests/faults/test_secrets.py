"""Tokens and keys of the user's are in no sandbox, log, record or report."""

import os
import re
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import harness
from faults.stage import SOURCE, Stage, reading

from harness.cli.main import group

SECRET = "planted-secret-81b7"
VARIABLES = (
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "WANDB_API_KEY"),
    *("GITHUB_TOKEN", "GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "CI_JOB_TOKEN"),
    *("http_proxy", "GIT_ASKPASS", "PIP_INDEX_URL", "OPENAI_API_KEY", "SLURM_JWT", "LD_PRELOAD_X"),
)
FILES = (
    *(".netrc", ".cache/huggingface/token", ".huggingface/token", ".git-credentials"),
    *(".ssh/id_ed25519", ".aws/credentials", ".config/wandb/settings", ".pypirc"),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home full of secrets, and an environment."""
    home = tmp_path / "home"
    for name in FILES:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(SECRET)
    monkeypatch.setenv("HOME", str(home))
    for name in VARIABLES:
        monkeypatch.setenv(name, f"x-{SECRET}")
    monkeypatch.setenv("NIX_CONFIG", f"access-tokens = github.com={SECRET}")
    return home


def holding(folder: Path) -> list[Path]:
    """The files below a folder that hold the secret."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.e2e
@pytest.mark.usefixtures("home")
def test_a_launch_and_all_that_is_made_of_it(
    base: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    work = tmp_path_factory.mktemp("curious")
    for above in (work, *work.parents[:2]):
        above.chmod(0o755)
    stage = Stage.build(work, base, Path(__file__).with_name("curious.py"))
    launch = stage.launch(stage.root("first"))
    run, root = launch.plan.run, launch.project.root
    ended = stage.train(launch)
    assert ended.status == 0, ended.said
    assert SECRET not in ended.said
    # What the upstream saw: it did look, and its own variables are all there were.
    seen = (run / "output/found").read_text()
    assert "PYTHONHASHSEED" in seen and "SECRET" not in seen.upper()
    assert not any(f"'{name}'" in seen for name in VARIABLES)
    assert holding(root) == []
    target = root / "made"
    target.mkdir()
    for words in (
        ["audit", str(run), "--json"],
        ["diff", str(run), str(run)],
        ["report", str(run), "-o", str(target / "page.html")],
        ["report", str(run), "--format", "md"],
        ["export", str(run), "-o", str(target / "statement.json")],
        ["export", str(run), "--format", "ro-crate", "-o", str(target / "crate")],
        ["plan", "mdlm", "lm1b", "--json"],
        ["cache"],
        ["doctor", "--json"],
    ):
        with reading():
            done = CliRunner().invoke(group, ["--root", str(root), *words])
        assert SECRET not in done.output + repr(done.exception), words
    assert (target / "page.html").is_file() and (target / "statement.json").is_file()
    assert holding(root) == []


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("words", [("fetch", "lm1b", "--dry-run"), ("pin", "acme/tiny")])
def test_what_is_said_of_a_hub_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Neither the token nor a password in the endpoint's address is told."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HF_ENDPOINT", f"http://me:{SECRET}@127.0.0.1:{port}")
    root = tmp_path / "root"
    root.mkdir()
    done = harness(root, *words, check=None)
    assert done.returncode != 0
    assert done.stderr.startswith("harness: ") or "\nharness: " in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert holding(root) == []


def test_no_module_records_the_environment() -> None:
    """Where the harness reads the environment, it takes a variable by name, or hands it on."""
    readers = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "harness").rglob("*.py")
        if re.search(r"[*]{2} *os[.]environ|[(=] *os[.]environ *[),]", path.read_text())
    }
    assert readers <= {"harness/nix.py", "harness/mirrors.py"}

"""`./bootstrap` and the launcher, as a new user meets them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import nix

SOURCE = Path(__file__).parents[2]

pytestmark = pytest.mark.e2e


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project's files outside git."""
    folder = tmp_path / "copy"
    left_out = shutil.ignore_patterns(".*", "data", "runs", "result*", "__pycache__")
    shutil.copytree(SOURCE, folder, symlinks=True, ignore=left_out)
    shutil.copytree(SOURCE / "harness/data", folder / "harness/data", dirs_exist_ok=True)
    return folder


def bootstrap(
    folder: Path, home: Path, *words: str, **more: str
) -> subprocess.CompletedProcess[str]:
    home.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HARNESS_"))}
    own = {"HOME": str(home), "HARNESS_BASE_KIND": "captured"}
    python = {"HARNESS_HOST_PYTHON": str(nix.host_python().resolve())}
    return subprocess.run(
        [folder / "bootstrap", *words],
        cwd=home,
        env={**kept, **own, **python, **more},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_new_user_gets_settings_a_base_and_the_command(copy: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("data/raw", "runs/one", "evaluations/one"):
        (copy / name).mkdir(parents=True)
        (copy / name / "marker").write_text(str(tmp_path))  # bytes the store cannot know yet
    stored = set(Path("/nix/store").iterdir())
    # What the launcher must not let through: a start-up file of Python's.
    done = bootstrap(copy, home, "list", PYTHONSTARTUP="/x", PYTHONPATH="/y", PYTHONHOME="/z")
    assert done.returncode == 0, done.stderr
    assert "mdlm" in done.stdout
    new = set(Path("/nix/store").iterdir()) - stored
    markers = [path for root in new for path in root.rglob("marker") if path.is_file()]
    assert not any(path.read_text() == str(tmp_path) for path in markers)
    settings = (home / ".config/nix/nix.conf").read_text()
    assert "experimental-features = nix-command flakes\n" in settings
    assert "sandbox-fallback = false\n" in settings
    again = bootstrap(copy, home, "list")
    assert again.stdout == done.stdout
    assert "bootstrap:" not in again.stderr
    assert (home / ".config/nix/nix.conf").read_text() == settings


def test_what_a_user_set_stays(copy: Path, tmp_path: Path) -> None:
    settings = tmp_path / "home/.config/nix/nix.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text("extra-experimental-features = nix-command flakes\nmax-jobs = 1\n")
    bootstrap(copy, tmp_path / "home", "list")
    lines = settings.read_text().splitlines()
    assert lines[:2] == ["extra-experimental-features = nix-command flakes", "max-jobs = 1"]
    assert not any(line.startswith("experimental-features") for line in lines)


@pytest.mark.parametrize("words", [(), ("fly",)])
def test_an_unknown_command_is_refused_before_anything_is_done(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = bootstrap(SOURCE, tmp_path / "home", *words)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "train" in line
    assert not (tmp_path / "home/.config").exists()


def test_it_is_found_through_a_link_and_beside_a_folder_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "elsewhere" / "bin").mkdir(parents=True)  # what cd would find by CDPATH
    (tmp_path / "bin" / "start").symlink_to(SOURCE / "bootstrap")
    for script in ("bin/start", tmp_path / "bin" / "start"):
        done = subprocess.run(
            ["sh", script, "fly"],
            cwd=tmp_path,
            env={**os.environ, "CDPATH": str(tmp_path / "elsewhere")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert "train" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_folder_nix_has_no_address_for_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a copy"
    shutil.copytree(SOURCE / "nix", folder / "nix", symlinks=True)
    shutil.copy(SOURCE / "bootstrap", folder)
    done = bootstrap(folder, tmp_path / "home", "list")
    assert done.returncode == 2
    assert "move the folder" in done.stderr


def test_tests_are_run_in_a_checkout_only(tmp_path: Path) -> None:
    program = SOURCE / "nix/apps/bin/test"
    done = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no checkout" in done.stderr


def test_a_checkout_of_somebody_else_is_read(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a checkout away")
    folder = tmp_path / "theirs"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{SOURCE}", folder], check=True)
    shutil.copy(SOURCE / "bootstrap", folder)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    done = bootstrap(folder, tmp_path / "home", "list")
    assert done.returncode == 0, done.stderr

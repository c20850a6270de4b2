"""The commands `prepare` and `verify` as a user types them."""

import subprocess
import sys
from pathlib import Path

from harness.project import Project

SOURCE = Path(__file__).parents[2]


def harness(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", "--root", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=SOURCE)


def test_prepare_says_what_came_out(smoke_copy: Project) -> None:
    done = harness(smoke_copy.root, "prepare", "lm1b", "--profile", "smoke")
    assert done.returncode == 0, done.stderr
    assert "train: 55106 documents, 6284 sequences" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("manifest ")


def test_verify_reads_and_shows(smoke: Project) -> None:
    done = harness(smoke.root, "verify", "lm1b", "--profile", "smoke", "--sample", "1")
    assert done.returncode == 0, done.stderr
    assert "--- train row 0\n[CLS] many witnesses" in done.stdout
    assert "6845 rows as the manifest says" in done.stdout


def test_verify_of_a_spoilt_set_fails_and_says_where(smoke_copy: Project) -> None:
    folder = smoke_copy.data / "processed" / "smoke-lm1b-bert-128" / "train"
    path = folder / "data-00000.arrow"
    data = bytearray(path.read_bytes())
    data[100_000] ^= 1
    path.unlink()
    path.write_bytes(data)
    done = harness(smoke_copy.root, "verify", "lm1b", "--profile", "smoke")
    assert done.returncode == 1
    assert "data-00000.arrow: digest differs" in done.stderr
    assert "Traceback" not in done.stderr


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    for words, message in (
        (("prepare", "nothing"), "dataset nothing: not pinned"),
        (("prepare", "lm1b"), "run 'harness fetch lm1b'"),
        (("verify", "lm1b"), "not found"),
        (("fetch", "smoke-lm1b"), "nothing to fetch"),
    ):
        done = harness(tmp_path, *words)
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1

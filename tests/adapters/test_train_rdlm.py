"""RDLM's trainer ends with a status that says whether it failed, and works beside its data."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ADAPTER = Path(__file__).parents[2] / "adapters" / "train_rdlm.py"
# In the form of upstream's: whatever happens is reported as critical, and the status is 0.
MAIN = """
import logging, os, pathlib, sys
def main():
    logger = logging.getLogger()
    logger.handlers.clear()
    logger.addHandler(logging.StreamHandler())
    try:
        {does}
    except Exception as error:
        logger.critical(error, exc_info=True)
if __name__ == "__main__":
    main()
"""


def run(folder: Path, does: str) -> subprocess.CompletedProcess[str]:
    for name in ("adapters", "data/lm1b", "source", "output/tokenised"):
        (folder / name).mkdir(parents=True)
    shutil.copy(ADAPTER, folder / "adapters")
    (folder / "source" / "run_train.py").write_text("")
    (folder / "source" / "main.py").write_text(MAIN.format(does=does))
    return subprocess.run(
        [sys.executable, "-B", str(folder / "adapters" / ADAPTER.name), "run_mode=train"],
        cwd=folder / "output",
        env={"PYTHONPATH": str(folder / "source")},
        capture_output=True,
        text=True,
    )


def test_a_training_that_ends_well(tmp_path: Path) -> None:
    done = run(tmp_path, "print(os.listdir(), sys.argv[1:], __file__.endswith('train_rdlm.py'))")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['lm1b'] ['run_mode=train'] True\n"
    assert not (tmp_path / "output" / "tokenised").exists()


@pytest.mark.parametrize("what", ["raise ValueError('no GPU')", "import absent_package"])
def test_a_failure_that_is_only_reported(tmp_path: Path, what: str) -> None:
    done = run(tmp_path, what)
    assert done.returncode == 1
    assert "no GPU" in done.stderr or "absent_package" in done.stderr
    assert (tmp_path / "output" / "tokenised").exists()  # for the next attempt


def test_a_status_of_its_own(tmp_path: Path) -> None:
    assert run(tmp_path, "sys.exit(3)").returncode == 3

"""What the papers' code uses to read our files, where it is installed: datasets, transformers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.data import arrow, offline, ready
from harness.project import Project

LOAD = """
import socket, sys
def refuse(*_, **__): raise AssertionError("a socket was opened")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
import transformers
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
text = "Many witnesses saw the letter, for $40."
print(tokenizer(text, add_special_tokens=False)["input_ids"])
"""


def test_datasets_reads_the_training_cache(smoke: Project, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="the library is not in this environment")
    folder = ready.training_cache(smoke, "smoke-lm1b", "lightning")
    path = folder / "lm1b_test_bs128_wrapped.dat"
    found = datasets.load_from_disk(str(path)).with_format("numpy")
    ids, _ = next(arrow.batches(arrow.shard_paths(path)[0], 128))
    assert len(found) == 561
    assert (found[:100]["input_ids"] == ids[:100]).all()
    assert (found[:100]["attention_mask"] == 1).all()


BARE = """
import socket, sys
def refuse(*_, **__): raise AssertionError("a socket was opened")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
import datasets, transformers
found = datasets.load_dataset("lm1b", cache_dir=sys.argv[1])
tokenizer = transformers.AutoTokenizer.from_pretrained("bert-base-uncased")
print({name: len(split) for name, split in sorted(found.items())}, len(tokenizer))
"""


def test_rdlm_layout_is_loaded_by_bare_names_without_a_socket(
    smoke: Project, tmp_path: Path
) -> None:
    for library in ("datasets", "transformers"):
        pytest.importorskip(library, reason="the library is not in this environment")
    folder = ready.training_cache(smoke, "smoke-lm1b", "rdlm")
    environment = {**os.environ, **offline.VARIABLES, "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", BARE, str(tmp_path / "cache")],
        capture_output=True, text=True, env=environment, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'test': 4894, 'train': 55106} 555"


@pytest.mark.parametrize("how", ["path", "name", "moved"])
def test_transformers_loads_the_tokenizer_without_a_socket(
    smoke: Project, tmp_path: Path, how: str
) -> None:
    pytest.importorskip("transformers", reason="the library is not in this environment")
    home = smoke.data / "raw" / "huggingface"
    if how == "moved":
        home = shutil.copytree(home, tmp_path / "moved", symlinks=True)
    snapshot = next((home / "hub" / "models--smoke-bert" / "snapshots").iterdir())
    name = str(snapshot) if how == "path" else "smoke-bert"
    environment = {**os.environ, **offline.VARIABLES, "HF_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, name], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    from harness.data.tokenise import load

    encoded = load(snapshot).encode(
        "Many witnesses saw the letter, for $40.", add_special_tokens=False
    )
    assert done.stdout.strip() == str(encoded.ids)

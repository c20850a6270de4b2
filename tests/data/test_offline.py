"""What a run asked the Hub for is read out of the libraries' own messages."""

from pathlib import Path

import pytest

from harness.data import offline, pins
from harness.data.offline import ENDPOINT, Asked

KNOWN = pins.load(Path(__file__).parents[2])


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        (f"Cannot reach {ENDPOINT}/api/models/owner/m: offline mode", ("model", "owner/m")),
        (f"Cannot reach {ENDPOINT}/api/models/owner/m/revision/main: off", ("model", "owner/m")),
        (f"Cannot reach {ENDPOINT}/api/models/gpt2/tree/main: off", ("model", "gpt2")),
        (f"Cannot reach {ENDPOINT}/api/datasets/lm1b: offline", ("dataset", "lm1b")),
        (f"Cannot reach {ENDPOINT}/owner/m/resolve/main/a.json: off", ("model", "owner/m")),
        (f"Cannot reach {ENDPOINT}/gpt2/resolve/main/a.json: off", ("model", "gpt2")),
        (f"Cannot reach {ENDPOINT}/datasets/o/d/resolve/main/a: off", ("dataset", "o/d")),
        ("cached files and it looks like gpt2 is not the path to a directory", ("model", "gpt2")),
        ("ConnectionError: Couldn't reach 'o/d' on the Hub (OfflineMode", ("dataset", "o/d")),
        ("Couldn't reach the Hugging Face Hub for dataset 'lm1b': Off", ("dataset", "lm1b")),
        ("been set. (repo_id: o/m, repo_type: model, revision: main,", ("model", "o/m")),
    ],
)
def test_messages_of_the_libraries(message: str, asked: tuple[str, str]) -> None:
    assert offline.asked(f"Traceback\n  {message}\n") == [Asked(*asked)]


@pytest.mark.parametrize("log", ["", "loss 1.0\n", "see https://example.org/api/models/a/b"])
def test_other_logs_say_nothing(log: str) -> None:
    assert offline.explain(log, KNOWN, "lm1b") == []


def _explain(kind: str, repo: str, key: str = "lm1b") -> str:
    lines = offline.explain(f"{ENDPOINT}/api/{kind}s/{repo}: offline", KNOWN, key)
    assert len(lines) == 1
    assert repo in lines[0]
    return lines[0]


def test_an_unpinned_repository_names_the_command() -> None:
    assert "add it: harness pin owner/m" in _explain("model", "owner/m")
    assert "harness pin owner/d --kind dataset" in _explain("dataset", "owner/d")


def test_a_pinned_one_says_why_it_was_not_seen() -> None:
    assert "not shown to runs on smoke-lm1b" in _explain("model", "gpt2", "smoke-lm1b")
    assert "were not enough" in _explain("model", "gpt2-large")
    assert "its prepared data only" in _explain("dataset", "lm1b")


def test_a_message_without_a_name_lists_what_is_seen() -> None:
    log = "Cannot find the requested files and outgoing traffic has been disabled."
    (line,) = offline.explain(log, KNOWN, "lm1b")
    assert "bert-base-uncased, gpt2-large" in line


@pytest.mark.parametrize(
    "call",
    [
        "hf_hub_download('owner/some-model', 'config.json')",
        "snapshot_download('owner/some-model')",
        "HfApi().model_info('owner/some-model')",
        # How a kernel's variants are looked up, although its snapshot is in the cache.
        "list(HfApi().list_repo_tree('owner/some-model', revision='v1'))",
    ],
)
def test_the_library_reports_our_endpoint_at_once(call: str) -> None:
    """The locked huggingface_hub itself, told to be offline: no socket, and a readable message."""
    import socket
    import subprocess
    import sys
    import time

    code = f"from huggingface_hub import *; {call}"
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env={**offline.VARIABLES, "HF_HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode != 0
    assert time.monotonic() - start < 60
    assert offline.asked(done.stderr) == [Asked("model", "owner/some-model")]
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", 9), timeout=5):
        pass  # nothing listens at the address that runs are given

"""Reading checkpoints from outside: the box asked for, and answers that are not believed.

The digests themselves: tests/inside.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sandbox_base
from checkpoint_files import call, whole, write

from harness import checkpoint, places, sandbox
from harness.errors import Refused
from harness.nix import Base, Environment
from harness.project import Project
from harness.sandbox import Box

SOURCE = Path(checkpoint.__file__).parents[1]
PROJECT = Project(source=SOURCE, root=Path("/nowhere"))


def environment(path: Path, base: Path) -> Environment:
    made = Environment("smoke", path, Base(base, "captured", "3.11", "", "", base, base), "0" * 64)
    made.__dict__["closure"] = (base,)  # not a store path, so that Nix is not asked
    return made


FAKE = environment(Path("/environment"), Path("/base"))


class Outside:
    """Stands for the sandbox: runs the tool on this host, on links named as inside."""

    def __init__(self, folder: Path) -> None:
        self.boxes: list[Box] = []
        self._folder = folder

    def run(
        self, box: Box, command: Sequence[str], input: bytes = b"", timeout: float | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        self.boxes.append(box)
        words = [sys.executable, *command[1:]]
        for mount in box.mounts:
            if mount.target in words:
                link = self._folder / Path(mount.target).name
                link.unlink(missing_ok=True)
                link.symlink_to(mount.source)
                words[words.index(mount.target)] = str(link)
        return subprocess.run(words, capture_output=True, cwd=SOURCE / "harness", check=False)


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Outside:
    stand_in = Outside(tmp_path_factory.mktemp("outside"))
    monkeypatch.setattr(sandbox, "run", stand_in.run)
    return stand_in


def small(path: Path, *numbers: float) -> Path:
    value = {"state_dict": {"w": whole("float32", "0", len(numbers))}, "global_step": 3}
    return write(path, value, {"0": np.array(numbers, "<f4").tobytes()})


def test_a_report(outside: Outside, tmp_path: Path) -> None:
    found = checkpoint.read(PROJECT, FAKE, small(tmp_path / "a b.ckpt", 1, 2))
    assert (found.format, found.step, found.classes) == ("torch-zip", 3, ())
    assert sorted(found.groups) == ["all", "state"]
    assert found.groups["state"].bytes == 8
    assert found.groups["state"].finite is True
    (tensor,) = found.tensors
    assert (tensor.name, tensor.group, tensor.shape) == ("state_dict/w", "state", (2,))


@pytest.mark.usefixtures("outside")
def test_only_the_weights_must_be_finite(tmp_path: Path) -> None:
    def spoilt(first: str, second: str) -> tuple[str, ...]:
        value = {first: {"w": whole("float32", "0", 1)}, second: {"w": whole("float32", "1", 1)}}
        numbers = [np.array([n], "<f4").tobytes() for n in (1, np.inf)]
        path = write(tmp_path / "a", value, dict(zip("01", numbers, strict=True)))
        return checkpoint.read(PROJECT, FAKE, path).spoilt

    assert spoilt("state_dict", "callbacks") == ()
    assert spoilt("state_dict", "ema") == ("ema/w",)
    assert spoilt("callbacks", "state_dict") == ("state_dict/w",)
    assert spoilt("callbacks", "other") == ("other/w",)


def test_the_box_shows_the_file_and_nothing_writable(outside: Outside, tmp_path: Path) -> None:
    path = small(tmp_path / "a", 1)
    checkpoint.read(PROJECT, FAKE, path)
    (box,) = outside.boxes
    targets = {mount.target: mount.source for mount in box.mounts}
    assert targets[f"{places.ROOT}/checkpoints/first"] == path
    assert set(targets.values()) == {path, FAKE.path, SOURCE / "harness" / "inside"}
    assert not any(mount.writable for mount in box.mounts)
    assert not (box.gpus or box.share_network)


def test_a_comparison(outside: Outside, tmp_path: Path) -> None:
    first, second = small(tmp_path / "a", 1, 2), small(tmp_path / "b", 1, 5)
    found = checkpoint.compare(PROJECT, FAKE, first, second)
    assert (found.first, found.largest, found.elements) == ("state_dict/w", 3.0, 1)
    assert found.equal is False
    assert checkpoint.compare(PROJECT, FAKE, first, first).equal is True


@pytest.mark.usefixtures("outside")
def test_refusals_name_the_users_file(tmp_path: Path) -> None:
    good, bad = small(tmp_path / "a", 1), tmp_path / "bad.ckpt"
    bad.write_bytes(good.read_bytes()[:-1])
    with pytest.raises(Refused, match=r"^\S*/bad\.ckpt: truncated") as refused:
        checkpoint.read(PROJECT, FAKE, bad)
    assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("outside")
def test_links_and_absent_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(small(tmp_path / "a", 1))
    with pytest.raises(Refused, match="link"):
        checkpoint.read(PROJECT, FAKE, tmp_path / "link")
    with pytest.raises(FileNotFoundError):
        checkpoint.read(PROJECT, FAKE, tmp_path / "absent")


def answer(text: bytes, status: int = 0, error: bytes = b"") -> Any:
    return lambda *_, **__: subprocess.CompletedProcess([], status, text, error)


@pytest.mark.parametrize(
    ("answered", "why"),
    [
        (answer(b"no JSON"), "not JSON"),
        (answer(b"[" * 100_000), "not JSON"),
        (answer(b"{}"), "schema"),
        (answer(json.dumps({"schema_version": 2}).encode()), "schema"),
        (answer(b"", 137), "status 137"),
        (answer(b"", 1, b"Traceback\nOSError: gone"), "OSError: gone"),
    ],
)
def test_answers_are_not_believed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answered: Any, why: str
) -> None:
    monkeypatch.setattr(sandbox, "run", answered)
    with pytest.raises(Refused, match=why):
        checkpoint.read(PROJECT, FAKE, small(tmp_path / "a", 1))


def test_a_reader_kept_busy_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def busy(*_: object, timeout: float, **__: object) -> None:
        raise subprocess.TimeoutExpired("x", timeout)

    monkeypatch.setattr(sandbox, "run", busy)
    with pytest.raises(Refused, match="took over 120 s"):
        checkpoint.read(PROJECT, FAKE, small(tmp_path / "a", 1))


def test_holes_are_no_reason_to_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    waits: list[float] = []

    def reader(*_: object, timeout: float, **__: object) -> None:
        waits.append(timeout)
        raise subprocess.TimeoutExpired("x", timeout)

    monkeypatch.setattr(sandbox, "run", reader)
    path = small(tmp_path / "a", 1)
    for size, why in ((1 << 30, "took over 120 s"), (1 << 41, "is made of holes")):
        with path.open("r+b") as file:
            file.truncate(size)
        with pytest.raises(Refused, match=why):
            checkpoint.read(PROJECT, FAKE, path)
    assert len(waits) == 1


@pytest.mark.e2e
def test_in_a_real_sandbox(base: Path, tmp_path: Path) -> None:
    made = sandbox_base.environment(base, tmp_path / "environment")
    path = small(tmp_path / "a.ckpt", 1, float("nan"))
    here = environment(made, base)
    here.__dict__["closure"] = sandbox_base.closure(base)
    found = checkpoint.read(PROJECT, here, path)
    assert found.groups["state"].finite is False
    write(path, call("posix", "system", "touch /tmp/x"), {})
    with pytest.raises(Refused, match=r"a\.ckpt: posix\.system: not among"):
        checkpoint.read(PROJECT, here, path)

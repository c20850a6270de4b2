"""A supervised command: its status, its logs, its signals."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import sandbox_base

from harness import logs as logs_module
from harness.errors import Refused
from harness.sandbox import Mount
from harness.supervise import SIGNALS, supervise

pytestmark = pytest.mark.e2e

OUTPUT = "/run/harness/output"


class Trial:
    """One command in a sandbox with a writable output, and what it left."""

    def __init__(self, base: Path, folder: Path) -> None:
        self.output = folder / "output"
        self.output.mkdir()
        self.logs = (folder / "stdout.log", folder / "stderr.log")
        self.box = sandbox_base.box(base, Mount(self.output, OUTPUT, writable=True))
        self.polls = 0
        self.last = 0

    def run(self, code: str) -> int:
        return supervise(self.box, [sandbox_base.PYTHON, "-c", code], *self.logs, self.poll)

    def poll(self) -> bool:
        self.polls += 1
        return self.polls == self.last

    def said(self) -> tuple[str, str]:
        return self.logs[0].read_text(), self.logs[1].read_text()


@pytest.fixture
def trial(base: Path, tmp_path: Path) -> Trial:
    return Trial(base, tmp_path)


@pytest.mark.parametrize("status", [0, 1, 7, 130, 255])
def test_the_commands_status_is_passed_on(trial: Trial, status: int) -> None:
    assert (
        trial.run(f"import sys; print('out'); sys.stderr.write('err'); sys.exit({status})")
        == status
    )
    assert trial.said() == ("out\n", "err")
    assert trial.polls


def test_death_by_a_signal_is_128_and_its_number(trial: Trial) -> None:
    assert trial.run("import os; os.kill(os.getpid(), 9)") == 128 + signal.SIGKILL


def test_logs_are_appended_over_attempts(trial: Trial) -> None:
    for word in ("one", "two"):
        assert trial.run(f"print({word!r})") == 0
    assert trial.said()[0] == "one\ntwo\n"


def test_a_large_output_is_written_whole(trial: Trial) -> None:
    assert trial.run("for n in range(200_000): print(n)") == 0
    assert trial.said()[0].split() == [str(n) for n in range(200_000)]


SAVES = f"""
import signal, sys, time
def save(number, frame):
    open("{OUTPUT}/saved", "w").write(str(number))
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, save)
open("{OUTPUT}/ready", "w").close()
while True: time.sleep(0.01)
"""
DEAF = SAVES.replace("sys.exit(128 + number)", "pass")


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupt_reaches_the_trainer_which_saves(trial: Trial, number: int) -> None:
    before = signal.signal(number, signal.default_int_handler)  # nohup ignores SIGHUP
    handler = signal.getsignal(number)
    thread = threading.Thread(target=send, args=(trial.output / "ready", number))
    thread.start()
    assert trial.run(SAVES) == 128 + signal.SIGTERM
    thread.join()
    assert (trial.output / "saved").read_text() == str(int(signal.SIGTERM))
    assert signal.getsignal(number) == handler
    signal.signal(number, before)


def test_a_second_interrupt_ends_a_trainer_that_does_not_listen(trial: Trial) -> None:
    both = [trial.output / "ready", trial.output / "saved"]
    threads = [threading.Thread(target=send, args=(path, signal.SIGINT)) for path in both]
    for thread in threads:
        thread.start()
    assert trial.run(DEAF) == 128 + signal.SIGINT
    for thread in threads:
        thread.join()


def test_a_signal_that_was_ignored_stays_ignored(trial: Trial) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        thread = threading.Thread(target=send, args=(trial.output / "ready", signal.SIGHUP))
        thread.start()
        assert trial.run(f"open('{OUTPUT}/ready', 'w'); import time; time.sleep(1)") == 0
        thread.join()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert trial.said() == ("", "")


def test_a_log_that_cannot_be_written_is_told_once_the_trainer_has_ended(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = logs_module.open_log

    def full(path: Path) -> object:
        file = opened(path)
        return Path("/dev/full").open("ab", buffering=0) if path == trial.logs[0] else file

    monkeypatch.setattr(logs_module, "open_log", full)
    code = f"for n in range(50_000): print(n)\nopen('{OUTPUT}/saved', 'w')"
    with pytest.raises(OSError, match="No space left") as caught:
        trial.run(code)
    assert caught.value.filename == str(trial.logs[0])
    assert (trial.output / "saved").exists()
    assert trial.run(f"{code}; raise SystemExit(7)") == 7
    assert f"{trial.logs[0]}: No space left on device" in capfd.readouterr().err


def test_a_log_that_is_none_is_refused_before_anything_runs(trial: Trial) -> None:
    trial.logs[1].mkdir()
    with pytest.raises(Refused, match="cannot be opened as a log"):
        trial.run(f"open('{OUTPUT}/ran', 'w')")
    assert not (trial.output / "ran").exists()


def send(when: Path, number: int) -> None:
    """Send this process a signal once `when` is there."""
    deadline = time.monotonic() + 30
    while not when.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(os.getpid(), number)


def test_a_poll_that_has_seen_enough_stops_it(trial: Trial) -> None:
    trial.last = 3
    code = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(9)); time.sleep(60)"
    assert trial.run(code) == 9

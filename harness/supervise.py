"""Run a trainer in its sandbox: logs, signals, a look at its progress, its exit status."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, BinaryIO

from harness import sandbox
from harness.files import open_log
from harness.sandbox import Box

POLL_SECONDS = 0.5
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_BLOCK = 1 << 16


def supervise(
    box: Box, command: list[str], stdout: Path, stderr: Path, poll: Callable[[], bool]
) -> int:
    """Run `command` to its end and return its exit status (128 + n for signal n).

    Its output is appended to the two logs. SIGHUP, SIGINT and SIGTERM reach the trainer as
    SIGTERM, so that it can save; a second one kills the sandbox, and its number is the status
    then. `poll` is called twice a second; the first time it is true, the trainer gets a SIGTERM
    too. Raises Refused or OSError where a log cannot be written; the trainer has ended then.
    """
    with open_log(stdout) as out, open_log(stderr) as err:
        pipe = subprocess.PIPE
        process = sandbox.start(box, command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
        pumps = [_Pump(process.stdout, out, stdout), _Pump(process.stderr, err, stderr)]
        try:
            with _forwarding(process) as asked:
                _watch(process, poll)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            for pump in pumps:
                pump.join()
    poll()
    for pump in pumps:
        if pump.error is not None:
            raise pump.error
    status = 128 + asked[1] if len(asked) > 1 else process.returncode
    return status if status >= 0 else 128 - status


def _watch(process: subprocess.Popen[bytes], poll: Callable[[], bool]) -> None:
    stopped = False
    while True:
        try:
            process.wait(POLL_SECONDS)
            return
        except subprocess.TimeoutExpired:
            if poll() and not stopped:
                sandbox.interrupt(process, signal.SIGTERM)
                stopped = True


class _Pump(threading.Thread):
    """Appends a stream to a log, to the stream's end.

    A log that cannot be written (a full disk, say) is kept as `error`, and the stream is read
    on: the trainer must not hang on a pipe that is full, and may yet save.
    """

    def __init__(self, stream: IO[bytes] | None, log: BinaryIO, path: Path) -> None:
        super().__init__(daemon=True)
        assert stream is not None  # started with PIPE
        self.stream, self.log, self.path = stream, log, path
        self.error: OSError | None = None
        self.start()

    def run(self) -> None:
        with self.stream:
            while block := os.read(self.stream.fileno(), _BLOCK):
                try:
                    while block:
                        block = block[self.log.write(block) :]
                except OSError as error:
                    error.filename = str(self.path)
                    self.error = self.error or error


@contextmanager
def _forwarding(process: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Pass signals on while the block runs; yields the list of those that came."""
    asked: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 1:
            process.kill()
        else:
            with suppress(OSError):  # nobody may be listening any more
                os.write(2, b"\nstopping: the trainer saves first; once more ends it at once\n")
            sandbox.interrupt(process, signal.SIGTERM)

    # What the caller had ignored (nohup, a script's background job) stays ignored.
    ours = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in ours}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

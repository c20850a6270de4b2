"""Run a trainer in its sandbox: logs, signals, a look at its progress, its exit status."""

import errno
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

from harness import limits, sandbox
from harness.errors import Refused
from harness.logs import Log
from harness.sandbox import Box

POLL_SECONDS = 0.5
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_BLOCK = 1 << 16


def supervise(
    box: Box, command: list[str], stdout: Path, stderr: Path, poll: Callable[[], bool]
) -> int:
    """Run `command` to its end and return its exit status (128 + n for signal n).

    Its output is appended to the two logs, which are bounded. SIGHUP, SIGINT and SIGTERM reach the
    trainer as SIGTERM, so that it can save; a second one kills the sandbox, and its number is the
    status then. `poll` is called twice a second; the first time it is true, the trainer gets a
    SIGTERM too.

    Raises Refused where a log is none, before anything runs; OSError where a log could not be
    written, once the trainer has ended well. Of one that ended badly the status says more; the log
    is told by a line on stderr then.
    """
    with Log(stdout) as out, Log(stderr) as err, limits.group(box.limits) as group:
        pipe = subprocess.PIPE
        before = group.join if group.folders else None
        process = sandbox.start(box, command, stdout=pipe, stderr=pipe, before=before)
        pumps = [_Pump(process.stdout, out), _Pump(process.stderr, err)]
        try:
            with _forwarding(process) as asked:
                _watch(process, poll)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            for pump in pumps:
                pump.join()
            if group.exhausted():
                _say(f"the sandbox came to its limit of {box.limits.memory} bytes of memory")
    poll()
    status = 128 + asked[1] if len(asked) > 1 else process.returncode
    for error in (pump.error for pump in pumps if pump.error is not None):
        if status == 0:
            raise error
        _say(f"{error.filename}: {error.strerror}; not all that the trainer said is in it")
    return status if status >= 0 else 128 - status


def _say(line: str) -> None:
    with suppress(OSError):  # nobody may be listening any more
        os.write(2, f"\n{line}\n".encode(errors="replace"))


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

    def __init__(self, stream: IO[bytes] | None, log: Log) -> None:
        super().__init__(daemon=True)
        assert stream is not None  # started with PIPE
        self.stream, self.log = stream, log
        self.error: OSError | None = None
        self.start()

    def run(self) -> None:
        with self.stream:
            while block := os.read(self.stream.fileno(), _BLOCK):
                try:
                    self.log.write(block)
                except (OSError, Refused) as error:
                    self.error = self.error or _unwritten(error, self.log.path)


def _unwritten(error: OSError | Refused, log: Path) -> OSError:
    """Why a log could not be written, with its name."""
    if isinstance(error, OSError):
        return OSError(error.errno, error.strerror, str(log))
    return OSError(errno.EINVAL, "is no longer a plain file", str(log))


@contextmanager
def _forwarding(process: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Pass signals on while the block runs; yields the list of those that came."""
    asked: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 1:
            process.kill()
        else:
            _say("stopping: the trainer saves first; once more ends it at once")
            sandbox.interrupt(process, signal.SIGTERM)

    # What the caller had ignored (nohup, a script's background job) stays ignored.
    ours = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in ours}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

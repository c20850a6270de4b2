"""Run a trainer in its sandbox: logs, signals, a look at its progress, its exit status."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, BinaryIO

from harness import sandbox
from harness.files import open_log
from harness.sandbox import Box

POLL_SECONDS = 0.5
_BLOCK = 1 << 16


def supervise(
    box: Box, command: list[str], stdout: Path, stderr: Path, poll: Callable[[], bool]
) -> int:
    """Run `command` to its end and return its exit status (128 + n for signal n).

    Its output is appended to the two logs. SIGINT and SIGTERM reach the trainer as SIGTERM, so
    that it can save; a second one kills the sandbox. `poll` is called twice a second; the first
    time it is true, the trainer gets a SIGTERM too.
    """
    process = sandbox.start(
        box, command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    pumps = [_pump(process.stdout, stdout), _pump(process.stderr, stderr)]
    try:
        with _forwarding(process):
            stopped = False
            while True:
                try:
                    status = process.wait(POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    if poll() and not stopped:
                        sandbox.interrupt(process, signal.SIGTERM)
                        stopped = True
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for pump in pumps:
            pump.join()
    poll()
    return status if status >= 0 else 128 - status


def _pump(stream: IO[bytes] | None, log: Path) -> threading.Thread:
    def copy(read: IO[bytes], write: BinaryIO) -> None:
        with read, write:
            while block := os.read(read.fileno(), _BLOCK):
                write.write(block)

    assert stream is not None  # started with PIPE
    thread = threading.Thread(target=copy, args=(stream, open_log(log)), daemon=True)
    thread.start()
    return thread


@contextmanager
def _forwarding(process: subprocess.Popen[bytes]) -> Iterator[None]:
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            process.kill()
        else:
            sandbox.interrupt(process, signal.SIGTERM)
        asked = True

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

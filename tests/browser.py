"""A headless Chromium driven over pipes, for tests of pages (Chrome DevTools Protocol)."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
# Nothing is asked of a network, nothing is kept.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page in a browser; `complaints` are its console errors and failed requests."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._rest = b""
        self._last = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: object) -> Any:
        """Call a method and return its result."""
        self._last += 1
        message: dict[str, object] = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]
            self._hear(answer)

    def open(self, url: str, width: int = 1200, height: int = 900) -> None:
        """Show a page and wait until it is loaded."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        self.ask("Page.navigate", url=url)
        while self._hear(self._next()) != "Page.loadEventFired":
            pass

    def evaluate(self, code: str) -> Any:
        """The JSON value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=code, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        typed = {"keyDown": "\r" if key == "Enter" else "", "keyUp": ""}
        for kind, text in typed.items():
            known = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
            self.ask("Input.dispatchKeyEvent", type=kind, **known)

    def media(self, kind: str = "screen", scheme: str = "light") -> None:
        """Pretend another medium or colour scheme."""
        scheme_feature = {"name": "prefers-color-scheme", "value": scheme}
        self.ask("Emulation.setEmulatedMedia", media=kind, features=[scheme_feature])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            block = os.read(self._receive, 1 << 16)
            assert block, "the browser ended"
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _hear(self, event: dict[str, Any]) -> str:
        method, told = event.get("method", ""), event.get("params", {})
        if method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(told)[:500])
        elif method == "Network.requestWillBeSent":
            url = told["request"]["url"]
            if not url.startswith(("file:", "data:", "about:")):
                self.complaints.append(f"asked for {url}")
        return str(method)


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a fresh profile in `folder`."""
    assert PROGRAM
    ours, theirs = os.pipe(), os.pipe()

    def placed() -> None:
        # The protocol's descriptors are 3 and 4; out of the way first, should they be taken.
        reading, writing = os.dup(ours[0]), os.dup(theirs[1])
        reading, writing = (os.dup2(fd, 100 + n) for n, fd in enumerate((reading, writing)))
        os.dup2(reading, 3)
        os.dup2(writing, 4)

    process = subprocess.Popen(
        [PROGRAM, *FLAGS, f"--user-data-dir={folder}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=placed, close_fds=False, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    try:
        os.close(ours[0])
        os.close(theirs[1])
        yield Browser(ours[1], theirs[0])
    finally:
        process.terminate()
        process.wait(20)
        os.close(ours[1])
        os.close(theirs[0])

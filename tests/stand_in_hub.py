"""A stand-in for the Hub on the loopback: its real protocol, and its faults on demand."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

_PAGE = 3  # entries a page of a listing
_ERRORS = {404: "RepoNotFound", 403: "GatedRepo"}


@dataclass
class Files:
    """A repository at one revision: path to bytes, those on LFS by name."""

    kind: str
    repo: str
    revision: str
    files: dict[str, bytes]
    large: frozenset[str] = frozenset()

    def sha256(self, path: str) -> str:
        return hashlib.sha256(self.files[path]).hexdigest()

    def blob_id(self, path: str) -> str:
        data = self.files[path]
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    def etag(self, path: str) -> str:
        return self.sha256(path) if path in self.large else self.blob_id(path)


@dataclass
class Fault:
    """What goes wrong, at which stage (list, head, get), and how often."""

    stage: str
    status: int = 0
    cut: int | None = None
    corrupt: bool = False
    revision: str | None = None
    stall: float = 0.0
    slow: float = 0.0
    times: int = 1
    ignore_range: bool = False
    shorten: int = 0  # bytes missing at the end, and nothing that says so


@dataclass
class StandIn:
    """The served repositories, the faults to come, and the requests that came."""

    repositories: list[Files]
    token: str | None = None
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str, str | None, str | None]] = field(default_factory=list)
    endpoint: str = ""

    def fault(self, stage: str) -> Fault | None:
        for fault in self.faults:
            if fault.stage == stage and fault.times > 0:
                fault.times -= 1
                return fault
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: StandIn

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path)
        authorization = self.headers.get("authorization")
        ranged = self.headers.get("range")
        self.hub.requests.append((self.command, self.path, authorization, ranged))
        wanted = f"Bearer {self.hub.token}"
        if self.hub.token and not path.startswith("/cdn/") and authorization != wanted:
            return self._error(401, "RepoNotFound")
        if match := re.fullmatch(r"/api/(model|dataset)s/(.+?)/tree/([^/]+)/?", path):
            return self._tree(*match.groups())
        if match := re.fullmatch(r"/api/(model|dataset)s/(.+?)(?:/revision/([^/]+))?", path):
            return self._info(*match.groups())
        if match := re.fullmatch(r"/cdn/(.+?)/([0-9a-f]{40})/(.+)", path):
            return self._bytes(*match.groups())
        if match := re.fullmatch(r"/(datasets/)?(.+?)/resolve/([^/]+)/(.+)", path):
            kind = "dataset" if match[1] else "model"
            return self._resolve(kind, match[2], match[3], match[4])
        return self._error(404, "RepoNotFound")

    def _find(self, kind: str, repo: str, revision: str | None) -> Files | None:
        same = [r for r in self.hub.repositories if (r.kind, r.repo) == (kind, repo)]
        if not same:
            self._error(404, "RepoNotFound")
            return None
        for found in same:
            if revision in (None, "main", found.revision):
                return found
        self._error(404, "RevisionNotFound")
        return None

    def _failing(self, stage: str) -> Fault | None:
        fault = self.hub.fault(stage)
        if fault is not None and fault.status:
            self._error(fault.status, _ERRORS.get(fault.status, ""))
        return fault

    def _error(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if code:
            self.send_header("X-Error-Code", code)
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()

    def _json(self, value: object, **headers: str) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def _tree(self, kind: str, repo: str, revision: str) -> None:
        fault = self._failing("list")
        if fault is not None and fault.status:
            return
        found = self._find(kind, repo, revision)
        if found is None:
            return
        entries: list[dict[str, object]] = []
        for path, data in sorted(found.files.items()):
            entry = {"type": "file", "path": path, "size": len(data), "oid": found.blob_id(path)}
            if path in found.large:
                oid = found.sha256(path)
                entry["lfs"] = {"oid": oid, "size": len(data), "pointerSize": 134}
            entries.append(entry)
        query = dict(part.split("=") for part in urlsplit(self.path).query.split("&") if part)
        start = int(query.get("cursor", 0))
        links = {}
        if start + _PAGE < len(entries):
            url = f"{self.hub.endpoint}{urlsplit(self.path).path}?cursor={start + _PAGE}"
            links = {"Link": f'<{url}>; rel="next"'}
        self._json(entries[start : start + _PAGE], **links)

    def _info(self, kind: str, repo: str, revision: str | None) -> None:
        found = self._find(kind, repo, revision)
        if found is not None:
            siblings = [{"rfilename": path} for path in sorted(found.files)]
            self._json({"id": repo, "sha": found.revision, "siblings": siblings})

    def _resolve(self, kind: str, repo: str, revision: str, path: str) -> None:
        fault = self._failing("head" if self.command == "HEAD" else "get")
        if fault is not None and fault.status:
            return
        found = self._find(kind, repo, revision)
        if found is None:
            return
        if path not in found.files:
            return self._error(404, "EntryNotFound")
        commit = fault.revision if fault is not None and fault.revision else found.revision
        if path not in found.large:
            return self._body(found, path, fault, {"X-Repo-Commit": commit})
        self.send_response(302)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("X-Linked-Etag", f'"{found.sha256(path)}"')
        self.send_header("X-Linked-Size", str(len(found.files[path])))
        # As on the Hub, large files lie on another host.
        other = self.hub.endpoint.replace("127.0.0.1", "localhost")
        self.send_header("Location", f"{other}/cdn/{repo}/{found.revision}/{path}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _bytes(self, repo: str, revision: str, path: str) -> None:
        fault = self._failing("get")
        if fault is not None and fault.status:
            return
        for found in self.hub.repositories:
            if (found.repo, found.revision) == (repo, revision):
                return self._body(found, path, fault, {})

    def _body(self, found: Files, path: str, fault: Fault | None, headers: dict[str, str]) -> None:
        data = found.files[path]
        start, status = 0, 200
        ranged = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range") or "")
        if ranged and not (fault is not None and fault.ignore_range):
            start, status = int(ranged[1]), 206
        body = data[start : len(data) - (fault.shorten if fault is not None else 0)]
        if fault is not None and fault.corrupt:
            body = body[:-1] + bytes([body[-1] ^ 1])
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("ETag", f'"{found.etag(path)}"')
        self.send_header("Content-Length", str(len(body)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if self.command == "GET":
            self._send(body, fault)

    def _send(self, body: bytes, fault: Fault | None) -> None:
        if fault is None:
            self.wfile.write(body)
            return
        if fault.cut is not None:
            self.wfile.write(body[: fault.cut])
            time.sleep(fault.stall)
            self.close_connection = True
            return
        for start in range(0, len(body), 1 << 14):
            self.wfile.write(body[start : start + (1 << 14)])
            time.sleep(fault.slow)


@contextmanager
def serving(hub: StandIn) -> Iterator[StandIn]:
    """Serve `hub` on the loopback while the block runs."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stalls are noticed, and retries made, without a person's patience."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.5)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 18)
    real = time.sleep
    for module in ("file_download", "utils._http"):
        monkeypatch.setattr(
            f"huggingface_hub.{module}.time.sleep", lambda seconds: real(min(seconds, 0.01))
        )

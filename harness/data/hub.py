"""The Hub as this harness uses it: list a pinned revision, fetch a file, check every byte.

huggingface_hub speaks the protocol; what is published into the cache is decided here. Its own
download function publishes a file before anybody has compared its digest, and begins a broken
download from the start; here a file is continued, checked, and only then given its name.
"""

import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from harness.data.places import hub_folder
from harness.errors import HarnessError, Refused
from harness.files import sha256_file, sync_folder

RepoType = Literal["model", "dataset"]
_PATH = re.compile(r"(?!/)(?!.*(^|/)\.\.?(/|$))[^\\\0]+")


@dataclass(frozen=True)
class Repository:
    """A repository at one revision."""

    kind: RepoType
    repo: str
    revision: str

    def __str__(self) -> str:
        """As a user reads it."""
        return f"{self.kind} {self.repo}@{self.revision[:12]}"


@dataclass(frozen=True)
class Entry:
    """A file of a repository: large files have a SHA-256 on the Hub, small ones a git blob id."""

    path: str
    size: int
    blob_id: str
    sha256: str | None

    @property
    def blob(self) -> str:
        """The file's name among the cache's blobs: the etag the Hub gives it."""
        return self.sha256 or self.blob_id


class Hub:
    """A connection to the Hub, with a token from the environment alone."""

    def __init__(self, endpoint: str | None = None, token: str | None = None) -> None:
        """`endpoint` None: the one of the library (HF_ENDPOINT); `token` None: no token."""
        from huggingface_hub import HfApi, constants
        from huggingface_hub.utils import disable_progress_bars

        if constants.is_offline_mode():
            raise Refused("HF_HUB_OFFLINE is set: unset it to fetch")
        disable_progress_bars()  # ours are shown
        self.endpoint = endpoint or constants.ENDPOINT
        if "@" in urlsplit(self.endpoint).netloc:
            raise Refused("HF_ENDPOINT holds a user's name: messages would tell it; use HF_TOKEN")
        # False, not None: a token that a login left in a file is not used unasked.
        self.token: str | Literal[False] = token or False
        self.api = HfApi(endpoint=self.endpoint, token=self.token)

    def revision(self, kind: RepoType, repo: str, name: str | None) -> str:
        """The commit that `name` (a branch, a tag; None: the default) stands for now."""
        with _in_one_line(f"{kind} {repo}"):
            info = self.api.repo_info(repo, repo_type=kind, revision=name)
        return str(info.sha)

    def files(self, repository: Repository) -> list[Entry]:
        """Every file of the revision, in path order.

        Raises HarnessError with the Hub's reason, or where a path would leave the snapshot.
        """
        from huggingface_hub.hf_api import RepoFile

        with _in_one_line(str(repository)):
            tree = list(
                self.api.list_repo_tree(
                    repository.repo,
                    recursive=True,
                    revision=repository.revision,
                    repo_type=repository.kind,
                )
            )
        found = [entry for entry in tree if isinstance(entry, RepoFile)]
        for entry in found:
            if not _PATH.fullmatch(entry.path):
                raise HarnessError(f"{repository}: path {entry.path!r} leaves the repository")
        entries = [
            Entry(
                f.path, f.lfs.size if f.lfs else f.size, f.blob_id, f.lfs.sha256 if f.lfs else None
            )
            for f in found
        ]
        return sorted(entries, key=lambda entry: entry.path)

    def download(
        self, repository: Repository, entry: Entry, cache: Path, report: Callable[[int], None]
    ) -> Path:
        """Have `entry` in the Hub cache at `cache`, checked; returns its place in the snapshot.

        A broken download is continued. Raises HarnessError where the Hub fails, or gives other
        bytes than it announced; nothing is published then.
        """
        folder = cache / hub_folder(repository.kind, repository.repo)
        blob = folder / "blobs" / entry.blob
        blob.parent.mkdir(parents=True, exist_ok=True)
        if not blob.is_file():
            part = blob.with_name(f"{blob.name}.incomplete")
            with _in_one_line(f"{repository} {entry.path}"):
                self._get(repository, entry, part, report)
            _check(part, entry, f"{repository} {entry.path}")
            part.rename(blob)
            sync_folder(blob.parent)
        return _link(folder, repository.revision, entry, blob)

    def _get(
        self, repository: Repository, entry: Entry, part: Path, report: Callable[[int], None]
    ) -> None:
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
        from huggingface_hub.file_download import http_get

        url = hf_hub_url(
            repository.repo,
            entry.path,
            repo_type=repository.kind,
            revision=repository.revision,
            endpoint=self.endpoint,
        )
        about = get_hf_file_metadata(url, token=self.token, endpoint=self.endpoint)
        announced = (about.commit_hash, about.etag, about.size)
        if announced != (repository.revision, entry.blob, entry.size):
            raise HarnessError(
                f"{repository} {entry.path}: the Hub serves commit, etag and size {announced}, "
                f"listed were {(repository.revision, entry.blob, entry.size)}"
            )
        # A link to another host is signed and must not be handed the token.
        own = urlsplit(about.location).netloc == urlsplit(url).netloc
        headers = {"authorization": f"Bearer {self.token}"} if self.token and own else {}
        have = part.stat().st_size if part.exists() else 0
        if have > entry.size:
            part.unlink()
            have = 0
        report(have)
        raw = io.FileIO(part, "r+" if have else "w")
        with _Counted(raw, report) as file:
            file.seek(have)
            http_get(
                about.location,
                file,
                resume_size=have,
                headers=headers,
                displayed_filename=entry.path,
            )
            file.flush()
            os.fsync(file.fileno())


class _Counted(io.BufferedWriter):
    """A file that reports how far it is written."""

    def __init__(self, raw: io.FileIO, report: Callable[[int], None]) -> None:
        super().__init__(raw, buffer_size=1 << 20)
        self.report = report

    def write(self, data: Any) -> int:
        """Write and report."""
        count = super().write(data)
        self.report(self.tell())
        return count


def _check(part: Path, entry: Entry, name: str) -> None:
    """Compare a finished download with what the Hub announced.

    One that is too short is kept, to be continued; another that differs is removed.
    """
    if (size := part.stat().st_size) < entry.size:
        raise HarnessError(f"{name}: {size} of {entry.size} bytes came; run again to go on")
    got = sha256_file(part) if entry.sha256 else git_blob_id(part)
    if part.stat().st_size == entry.size and got == entry.blob:
        return
    part.unlink()
    raise HarnessError(
        f"{name}: digest {got}, the Hub announced {entry.blob}; the copy was removed, run again"
    )


def git_blob_id(path: Path) -> str:
    """The SHA-1 under which git stores a file's bytes: the Hub's etag of a small file."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _link(folder: Path, revision: str, entry: Entry, blob: Path) -> Path:
    """The snapshot's entry: a relative link to the blob, so that the cache can be moved."""
    place = folder / "snapshots" / revision / entry.path
    place.parent.mkdir(parents=True, exist_ok=True)
    target = os.path.relpath(blob, place.parent)
    if not (place.is_symlink() and str(place.readlink()) == target):
        part = place.with_name(f".{place.name}.part")
        part.unlink(missing_ok=True)
        part.symlink_to(target)
        part.rename(place)
        sync_folder(place.parent)
    return place


@contextmanager
def _in_one_line(what: str) -> Iterator[None]:
    """Turn what the library and the network raise into one line that says what to do."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except HfHubHTTPError as error:
        raise HarnessError(f"{what}: {_http_reason(error)}") from error
    except httpx2.HTTPError as error:
        raise HarnessError(
            f"{what}: the Hub cannot be reached ({type(error).__name__}); run again to go on"
        ) from error
    except OSError as error:
        reason = " ".join(str(error).split())[:200]
        raise HarnessError(f"{what}: {reason}; run again to go on") from error


_REASONS = {
    401: "not found, or private: check the pin, or set HF_TOKEN",
    403: "access is gated or forbidden: accept its terms on the Hub and set HF_TOKEN",
    404: "not found on the Hub: check repository, revision and file name in pins.json",
    429: "too many requests: wait some minutes, set HF_TOKEN, run again to go on",
}


def _http_reason(error: Any) -> str:
    status = error.response.status_code
    reason = _REASONS.get(status, "the Hub fails: run again later to go on")
    return f"HTTP {status}, {reason}"

"""The Hub as this harness uses it: list a pinned revision, fetch a file, check every byte.

huggingface_hub speaks the protocol; what is published into the cache is decided here. Its own
download function publishes a file before anybody has compared its digest, and begins a broken
download from the start; here a file is continued, checked, and only then given its name.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from harness.data import names
from harness.data.places import hub_folder
from harness.errors import HarnessError, Refused
from harness.files import resolve_inside, sha256_file, sync_folder

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoFile

RepoType = Literal["model", "dataset"]


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
        """`endpoint` None: the Hub's own; `token` None: no token.

        Raises Refused where one of them is none, or the library is told to be offline.
        """
        if endpoint is not None:
            _check_address(endpoint)  # before the library, which fails as it reads a bad one
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise Refused("HF_TOKEN holds characters that no token has: set it anew, or unset it")
        from huggingface_hub import HfApi, constants
        from huggingface_hub.utils import disable_progress_bars

        if constants.is_offline_mode():
            raise Refused("HF_HUB_OFFLINE is set: unset it to fetch")
        disable_progress_bars()  # ours are shown
        self.endpoint = (endpoint or constants.ENDPOINT).rstrip("/")
        # False, not None: a token that a login left in a file is not used unasked.
        self.token: str | Literal[False] = token or False
        self.api = HfApi(endpoint=self.endpoint, token=self.token)

    def revision(self, kind: RepoType, repo: str, name: str | None) -> str:
        """The commit that `name` (a branch, a tag; None: the default) stands for now.

        Raises Refused where `repo` can name no repository, HarnessError with the Hub's reason.
        """
        if not names.is_repo(repo):
            raise Refused(f"{kind} {repo!r}: not a repository's name; write NAME or OWNER/NAME")
        with _in_one_line(f"{kind} {repo}"):
            sha = self.api.repo_info(repo, repo_type=kind, revision=name).sha
        if not names.is_hex(sha, 40):
            raise HarnessError(f"{kind} {repo}: the Hub gives {sha!r}, which is no commit")
        return str(sha)

    def files(self, repository: Repository) -> list[Entry]:
        """Every file of the revision, in path order.

        Raises HarnessError with the Hub's reason, or where a value cannot be what it should be.
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
        entries = [_announced(repository, file) for file in tree if isinstance(file, RepoFile)]
        return sorted(entries, key=lambda entry: entry.path)

    def download(
        self, repository: Repository, entry: Entry, cache: Path, report: Callable[[int], None]
    ) -> Path:
        """Have `entry` in the Hub cache at `cache`, checked; returns its place in the snapshot.

        Raises as `blob` does.
        """
        return link(repository, entry, cache, self.blob(repository, entry, cache, report))

    def blob(
        self, repository: Repository, entry: Entry, cache: Path, report: Callable[[int], None]
    ) -> Path:
        """The bytes of `entry` among the blobs of the Hub cache at `cache`, without a name yet.

        A broken download is continued. Those of a small file are compared with the git id also
        where they were here before; a large file's are its reader's to compare. Raises
        HarnessError where the Hub fails, or the bytes are not those it announced.
        """
        blob = _inside(cache / hub_folder(repository.kind, repository.repo) / "blobs", entry.blob)
        name = f"{repository} {entry.path}"
        if blob.is_file():
            if entry.sha256 is None:
                _compare(blob, entry, name)
            return blob
        blob.parent.mkdir(parents=True, exist_ok=True)
        part = blob.with_name(f"{blob.name}.incomplete")
        with _in_one_line(name):
            self._get(repository, entry, part, report)
        if (size := part.stat().st_size) < entry.size:
            raise HarnessError(f"{name}: {size} of {entry.size} bytes came; run again to go on")
        _compare(part, entry, name)
        part.rename(blob)
        sync_folder(blob.parent)
        return blob

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
        with _Counted(raw, report, entry.size) as file:
            file.seek(have)
            if have < entry.size:  # of a whole file nothing can be asked for
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
    """A file that reports how far it is written, and takes no more than its size."""

    def __init__(self, raw: io.FileIO, report: Callable[[int], None], size: int) -> None:
        super().__init__(raw, buffer_size=1 << 20)
        self.report, self.size = report, size

    def write(self, data: Any) -> int:
        """Write and report. Raises OSError for what is beyond the size."""
        if self.tell() + len(data) > self.size:
            raise OSError(f"more than the announced {self.size} bytes come")
        count = super().write(data)
        self.report(self.tell())
        return count


def _announced(repository: Repository, file: "RepoFile") -> Entry:
    """What the Hub says of a file, every value checked: paths are made of them.

    Raises HarnessError for a path that leaves the repository, an id that is none, and the like.
    """
    size, sha256 = (file.lfs.size, file.lfs.sha256) if file.lfs else (file.size, None)
    if not names.is_path(file.path):
        raise HarnessError(f"{repository}: path {file.path!r} leaves the repository, or is none")
    if not names.is_hex(file.blob_id, 40):
        raise HarnessError(f"{repository} {file.path}: {file.blob_id!r} is no git id")
    if sha256 is not None and not names.is_hex(sha256, 64):
        raise HarnessError(f"{repository} {file.path}: {sha256!r} is no SHA-256")
    if not names.is_size(size):
        raise HarnessError(f"{repository} {file.path}: {size!r} is no size")
    return Entry(file.path, size, file.blob_id, sha256)


def _check_address(endpoint: str) -> None:
    """Refuse an endpoint that no request can be sent to, or that must not be told."""
    try:
        parts = urlsplit(endpoint)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        whole = False
    if not (whole and endpoint.isascii() and endpoint.isprintable() and " " not in endpoint):
        raise Refused("HF_ENDPOINT is no web address: write https://HOST, or unset it")
    if "@" in parts.netloc:
        raise Refused("HF_ENDPOINT holds a user's name: messages would tell it; use HF_TOKEN")


def _compare(file: Path, entry: Entry, name: str) -> None:
    """Compare a file's bytes with what the Hub announced, and remove one that differs."""
    got = sha256_file(file) if entry.sha256 else git_blob_id(file)
    if file.stat().st_size == entry.size and got == entry.blob:
        return
    file.unlink()
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


def link(repository: Repository, entry: Entry, cache: Path, blob: Path) -> Path:
    """Give a blob its name in the snapshot: a relative link, so that the cache can be moved."""
    folder = cache / hub_folder(repository.kind, repository.repo) / "snapshots"
    place = _inside(folder, f"{repository.revision}/{entry.path}")
    place.parent.mkdir(parents=True, exist_ok=True)
    target = os.path.relpath(blob, place.parent)
    if not (place.is_symlink() and str(place.readlink()) == target):
        part = place.with_name(f".{place.name}.part")
        part.unlink(missing_ok=True)
        part.symlink_to(target)
        part.rename(place)
        sync_folder(place.parent)
    return place


def _inside(folder: Path, name: str) -> Path:
    """The place `name` in `folder`. Raises Refused where it, or a link on the way, leads out."""
    if not names.is_path(name):
        raise Refused(f"{name!r}: no place inside {folder}")
    resolve_inside(folder, Path(name).parent)
    return folder / name


@contextmanager
def _in_one_line(what: str) -> Iterator[None]:
    """Turn what the library and the network raise into one line that says what to do."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        yield
    except HfHubHTTPError as error:
        raise HarnessError(f"{what}: {_http_reason(error)}") from error
    except httpx2.HTTPError as error:
        raise HarnessError(
            f"{what}: the Hub cannot be reached ({type(error).__name__}); run again to go on"
        ) from error
    except HFValidationError as error:
        raise Refused(f"{what}: not a repository's name; write NAME or OWNER/NAME") from error
    except OSError as error:
        reason = " ".join(str(error).split())[:200]
        raise HarnessError(f"{what}: {reason}; run again to go on") from error
    except (httpx2.InvalidURL, ValueError, TypeError, LookupError, AttributeError) as error:
        raise HarnessError(
            f"{what}: the Hub's answer is not understood ({type(error).__name__}); run again, or "
            "check HF_ENDPOINT"
        ) from error


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

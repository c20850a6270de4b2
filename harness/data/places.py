"""Where data lies under a project's root."""

from dataclasses import dataclass
from pathlib import Path

from harness.errors import Refused
from harness.project import Project


def hub_folder(kind: str, repo: str) -> str:
    """The Hub cache's name of a repository (`models--gpt2`, `datasets--owner--name`)."""
    return f"{kind}s--" + repo.replace("/", "--")


def blob(entry: Path, repository: Path) -> Path:
    """The file that a snapshot's entry stands for: itself, or the blob it is a link to.

    Raises Refused where a link leads out of its repository's folder.
    """
    path = entry.resolve()
    if not path.is_relative_to(repository.resolve()):
        raise Refused(f"{entry}: leads to {path}, outside {repository}; remove it")
    return path


@dataclass(frozen=True)
class Places:
    """The folders and files of one project's data."""

    data: Path

    @classmethod
    def of(cls, project: Project) -> "Places":
        """The places of `project`."""
        return cls(project.data)

    @property
    def huggingface(self) -> Path:
        """HF_HOME of a run."""
        return self.data / "raw" / "huggingface"

    @property
    def hub(self) -> Path:
        """The Hub cache: one folder a repository, with blobs, snapshots and refs."""
        return self.huggingface / "hub"

    def snapshot(self, kind: str, repo: str, revision: str) -> Path:
        """A repository's snapshot folder."""
        return self.hub / hub_folder(kind, repo) / "snapshots" / revision

    def corpus(self, key: str) -> Path:
        """The folder of an embedded corpus's text."""
        return self.data / "raw" / "embedded" / key

    def processed(self, name: str) -> Path:
        """The folder of a processed set: one HF dataset folder a split."""
        return self.data / "processed" / name

    def partial(self, name: str) -> Path:
        """Where a processed set grows until it is whole."""
        return self.data / "processed" / f".{name}.part"

    def manifest(self, name: str) -> Path:
        """The manifest of a processed set, published after the set."""
        return self.data / "manifests" / f"{name}.json"

    @property
    def downloads(self) -> Path:
        """The record of everything fetched."""
        return self.data / "manifests" / "downloads.json"

    @property
    def digests(self) -> Path:
        """Digests remembered by what `stat` says of a file."""
        return self.data / "digests.json"

    def training(self, layout: str, name: str) -> Path:
        """The training cache made of a processed set in one layout."""
        return self.data / "training" / layout / name

    def lock(self, name: str) -> Path:
        """The lock file that one preparation of `name` holds."""
        return self.data / "locks" / f"{name}.lock"

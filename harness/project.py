"""Where things are: the harness's own tree, and the root that holds data and runs."""

from dataclasses import dataclass
from pathlib import Path

from harness.limits import NONE, Limits


@dataclass(frozen=True)
class Project:
    """The harness's source tree (read only) and a user's root (data, runs).

    `distrust`: digests remembered of files that did not change since are not believed.
    `limits`: what a sandbox that runs an upstream may use; no part of any identity.
    """

    source: Path
    root: Path
    distrust: bool = False
    limits: Limits = NONE

    @property
    def data(self) -> Path:
        """Raw snapshots, processed sets, training caches and their manifests."""
        return self.root / "data"

    @property
    def runs(self) -> Path:
        """One folder a run."""
        return self.root / "runs"

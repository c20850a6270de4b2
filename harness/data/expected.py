"""The digest that a file of a dataset or a model must have."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.data import downloads
from harness.data.places import Places
from harness.errors import Refused


@dataclass(frozen=True)
class Expected:
    """SHA-256 of the files of one folder: of the pin, else of the first fetch.

    `pinned` is by names below the folder, `fetched` by names below `data`.
    """

    places: Places
    folder: Path
    pinned: Mapping[str, str | None]
    fetched: Mapping[str, str]

    @classmethod
    def read(cls, places: Places, folder: Path, pinned: Mapping[str, str | None]) -> "Expected":
        """With the fetch record as it is. Raises Refused where that is invalid."""
        return cls(places, folder, pinned, downloads.digests(places.downloads))

    def recorded(self, name: str) -> str:
        """The name that the fetch record has for a file."""
        return (self.folder / name).relative_to(self.places.data).as_posix()

    def find(self, name: str) -> str | None:
        """The digest of the file `name`; None where neither knows one."""
        return self.pinned.get(name) or self.fetched.get(self.recorded(name))

    def sha256(self, name: str) -> str:
        """The same. Raises Refused where neither knows one."""
        if (found := self.find(name)) is None:
            raise Refused(f"{self.folder / name}: no record of its digest; fetch it again")
        return found

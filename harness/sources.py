"""The trees a recipe's code comes from: pinned upstream commits and the built-in one.

A pinned tree lies in the Nix store at a path that follows from its digest alone, so whether it
is there is a look at the disk: no evaluation, no network.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import places
from harness.errors import HarnessError, Refused
from harness.project import Project
from harness.sandbox import Mount
from harness.schemas import read_record
from harness.trees import folders

BYTE_CODE = "__pycache__"
# The sources that are this repository's own, all in one tree: the folders of it that are no part
# of them, so that work on the ensemble's trainer changes no other launch.
OWN = {"builtin": frozenset({"ensemble"}), "ensemble": frozenset[str]()}
_OWN_TREE = "builtin"
_STORE = "/nix/store"
_ALPHABET = "0123456789abcdfghijklmnpqrsvwxyz"  # Nix's base 32


@dataclass(frozen=True)
class Pin:
    """An upstream repository at one commit; `tree` is its Nix digest where it is known."""

    owner: str
    repo: str
    commit: str
    tree: str | None

    @property
    def url(self) -> str:
        """Where the commit lies on GitHub."""
        return f"https://github.com/{self.owner}/{self.repo}"


@dataclass(frozen=True)
class Mirror:
    """Where a user has a copy of an upstream, and the commit to take instead of the pinned one."""

    place: Path | None
    commit: str | None = None


@dataclass(frozen=True)
class Source:
    """A tree of code for a launch; `digest` is known beforehand where the tree is pinned."""

    name: str
    path: Path
    commit: str | None = None
    pinned: str | None = None
    digest: str | None = None
    absent: tuple[str, ...] = ()

    @property
    def near(self) -> bool:
        """Whether it is not the pinned commit: what is trained from it is of a second class."""
        return self.commit != self.pinned

    @property
    def missing(self) -> tuple[str, ...]:
        """What is missing of the tree, a line each."""
        if self.path.is_dir():
            return ()
        return (f"{self.label} is not in the store; 'harness fetch {self.name}' brings it",)

    @property
    def label(self) -> str:
        """A line for readers: name, commit, and how it differs from the pin."""
        if self.commit is None or self.pinned is None:
            return self.name
        at = f"{self.name} at {self.commit[:12]}"
        if not self.near:
            return at
        lacking = f", without {', '.join(self.absent)}" if self.absent else ""
        instead = f", not the pinned {self.pinned[:12]}"
        return f"{at}{instead}{lacking} (evidence of a second class)"

    def record(self, tree: str) -> dict[str, object]:
        """The source as an identity has it, its tree's digest being `tree`.

        Raises HarnessError where that is not the digest known beforehand.
        """
        if self.digest not in (None, tree):
            raise HarnessError(
                f"{self.path}: has digest {tree}, not {self.digest}, which {self.name} is pinned "
                f"to; remove it: nix-store --delete {self.path}"
            )
        record: dict[str, object] = {"name": self.name, "commit": self.commit, "tree": tree}
        if self.near:
            record["pinned"] = self.pinned
        if self.absent:
            record["absent"] = list(self.absent)
        return record


def pins(project: Project) -> Mapping[str, Pin]:
    """Every upstream pin, by source name."""
    table = read_record(project.source / "upstreams.json", "upstreams")["upstreams"]
    assert isinstance(table, dict)  # the schema says so
    return {
        name: Pin(entry["owner"], entry["repo"], entry["rev"], entry.get("narHash"))
        for name, entry in table.items()
    }


def pin(project: Project, source: str) -> Pin:
    """The pin of one upstream. Raises Refused where there is none."""
    found = pins(project)
    if source not in found:
        raise Refused(f"source {source}: no pin; one of {', '.join(found)}")
    return found[source]


def commit(project: Project, source: str) -> str | None:
    """The pinned commit of an upstream; None for the harness' own, whose tree says all."""
    return None if source in OWN else pin(project, source).commit


def look(project: Project, source: str, mirrors: Mapping[str, Mirror] | None = None) -> Source:
    """A source as a launch has it: which commit, and where its tree lies or would lie."""
    if source in OWN:
        return Source(source, project.source / _OWN_TREE)
    pinned = pin(project, source)
    chosen = (mirrors or {}).get(source, Mirror(None)).commit or pinned.commit
    link, record = kept(project, source, chosen)
    # The very tree of the pin: neither of another commit, nor one that lacks files of it.
    exact = chosen == pinned.commit and pinned.tree is not None
    path = store_path(str(pinned.tree)) if exact else link.resolve()
    facts: dict[str, Any] = {}
    if not exact and record.is_file() and path.is_dir():
        facts = read_record(record, "source")
    return Source(
        source,
        path,
        commit=chosen,
        pinned=pinned.commit,
        digest=pinned.tree if exact else facts.get("tree"),
        absent=tuple(facts.get("absent", ())),
    )


def kept(project: Project, source: str, chosen: str) -> tuple[Path, Path]:
    """The link that keeps a fetched tree in the store, and the record of what was fetched."""
    link = project.data / "sources" / f"{source}-{chosen}"
    return link, link.with_name(f"{link.name}.json")


def is_code(mount: Mount) -> bool:
    """Whether a mount shows what a trainer imports: the source's tree, or an adapter."""
    return mount.target == places.SOURCE or Path(mount.target).is_relative_to(places.ADAPTERS)


def left_out(source: str) -> frozenset[str]:
    """The names of folders that are no part of a source's tree, wherever they stand in it."""
    return OWN.get(source, frozenset()) | {BYTE_CODE}


def hidden(mounts: Iterable[Mount], source: str = "") -> tuple[str, ...]:
    """The folders that are no part of the code that `mounts` show, as places in the sandbox.

    Python would run byte code in place of the source, which alone the identity is of; `source`
    is whose tree is the code.
    """
    found = []
    for mount in mounts:
        if is_code(mount):
            wanted = left_out(source if mount.target == places.SOURCE else "")
            for folder in folders(mount.source, wanted):
                if folder.name in wanted and folder != mount.source:
                    found.append(str(Path(mount.target, folder.relative_to(mount.source))))
    return tuple(sorted(found))


def store_path(nar_hash: str, name: str = "source") -> Path:
    """The store path of a fetched tree with this `sha256-<base64>` digest.

    Nix manual, "Store path specification": a fixed-output path is named by the first 160 bits,
    folded, of the SHA-256 of `source:sha256:<hex>:/nix/store:<name>`.
    """
    inner = base64.b64decode(nar_hash.removeprefix("sha256-")).hex()
    outer = hashlib.sha256(f"source:sha256:{inner}:{_STORE}:{name}".encode()).digest()
    folded = bytearray(20)
    for place, byte in enumerate(outer):
        folded[place % 20] ^= byte
    return Path(_STORE, f"{_base32(bytes(folded))}-{name}")


def _base32(data: bytes) -> str:
    value = int.from_bytes(data, "little")
    length = -(-len(data) * 8 // 5)
    return "".join(_ALPHABET[value >> 5 * place & 31] for place in reversed(range(length)))

"""The trees a recipe's code comes from: pinned upstream commits and the built-in one.

A pinned tree lies in the Nix store at a path that follows from its digest alone, so whether it
is there is a look at the disk: no evaluation, no network.
"""

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import places
from harness.errors import Refused
from harness.project import Project
from harness.sandbox import Mount
from harness.schemas import read_record

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


def pins(project: Project) -> Mapping[str, Pin]:
    """Every upstream pin, by source name."""
    table = read_record(project.source / "upstreams.json", "upstreams")["upstreams"]
    assert isinstance(table, dict)  # the schema says so
    return {
        name: Pin(entry["owner"], entry["repo"], entry["rev"], entry.get("narHash"))
        for name, entry in table.items()
    }


def commit(project: Project, source: str) -> str | None:
    """The pinned commit of an upstream; None for the harness' own, whose tree says all."""
    return None if source in OWN else _pin(project, source).commit


def tree(project: Project, source: str) -> Path:
    """Where the tree of `source` lies, or would lie once it is fetched."""
    if source in OWN:
        return project.source / _OWN_TREE
    pin = _pin(project, source)
    if pin.tree is None:
        return project.data / "sources" / f"{source}-{pin.commit}"
    return store_path(pin.tree)


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
            for folder, names, _ in os.walk(mount.source):
                for name in wanted.intersection(names):
                    names.remove(name)
                    if not Path(folder, name).is_symlink():
                        inside = Path(folder).relative_to(mount.source) / name
                        found.append(str(Path(mount.target, inside)))
    return tuple(sorted(found))


def missing(project: Project, source: str) -> list[str]:
    """What is missing of a source's tree, a line each."""
    if tree(project, source).is_dir():
        return []
    pin = _pin(project, source)
    return [f"{pin.owner}/{pin.repo} at {pin.commit[:12]} is not in the store"]


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


def _pin(project: Project, source: str) -> Pin:
    found = pins(project)
    if source not in found:
        raise Refused(f"source {source}: no pin; one of {', '.join(found)}")
    return found[source]

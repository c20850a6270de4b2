"""Frozen token stores: mapped into memory, each byte pinned by their manifest's digest.

What the files hold: docs/formats/stores.md. The first store of a role is trained on or measured,
by domain: `old_web_train`, `chat_validation` and so on.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble.settings import Refusal

DOMAINS = ("old_web", "chat")
MANIFEST = "stores.json"


@dataclass(frozen=True)
class Store:
    """One split of one domain.

    `tokens`: (tokens,) uint16; `sentences`: (sentences, 3) uint32: tokens, characters, and
    whether a document ends.
    """

    name: str
    tokens: NDArray[np.uint16]
    sentences: NDArray[np.uint32]


@dataclass(frozen=True)
class Stores:
    """All stores, and what is the same for all."""

    sha256: str
    context: int
    vocabulary: int
    bos: int
    stores: Mapping[str, Store]

    def of(self, split: str) -> list[Store]:
        """The stores of a split (`train`, `validation`), in the domains' order."""
        return [self.stores[f"{domain}_{split}"] for domain in DOMAINS]


def load(folder: Path, pinned: str, context: int, vocabulary: int) -> Stores:
    """The stores in `folder`, each byte read once.

    Raises Refusal where the manifest is not the pinned one, or a file is not as it says.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise Refusal(f"{path}: no token stores here")
    raw = path.read_bytes()
    found = hashlib.sha256(raw).hexdigest()
    if found != pinned:
        raise Refusal(f"{path}: sha256 {found}, pinned by data.manifest_sha256 is {pinned}")
    record = json.loads(raw)
    for name, wanted in (("context", context), ("vocabulary", vocabulary)):
        if record[name] != wanted:
            raise Refusal(f"{path}: {name} is {record[name]}, the configuration's is {wanted}")
    wanted_stores = [f"{domain}_{split}" for split in ("train", "validation") for domain in DOMAINS]
    if lacking := [name for name in wanted_stores if name not in record["stores"]]:
        raise Refusal(f"{path}: has no store {lacking[0]}")
    stores = {name: _store(folder / name, record["stores"][name]) for name in wanted_stores}
    return Stores(found, context, vocabulary, record["bos"], stores)


def _store(folder: Path, said: Mapping[str, Any]) -> Store:
    tokens = _mapped(folder / "tokens.u16", "<u2", said)
    sentences = _mapped(folder / "sentences.u32", "<u4", said).reshape(-1, 3)
    return Store(folder.name, tokens, sentences)


def _mapped(path: Path, kind: str, said: Mapping[str, Any]) -> NDArray[Any]:
    wanted = said["files"][path.name]
    if not path.is_file() or path.stat().st_size != wanted["size"]:
        raise Refusal(f"{path}: is not there with the {wanted['size']} bytes the manifest says")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted["sha256"]:
        raise Refusal(f"{path}: sha256 {found}, the manifest says {wanted['sha256']}")
    return np.memmap(path, kind, mode="r")

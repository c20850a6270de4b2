"""What a trainer must know of a tokenizer: how many tokens, and which are special."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer's size and special tokens. `mask` and `pad` are None where it has none.

    `begin` is the token that packed rows begin with.
    """

    size: int
    mask: int | None
    pad: int | None
    begin: int = 0

    @property
    def with_mask(self) -> tuple[int, int]:
        """The size with a mask state, and that state: a new last one where there is none."""
        return (self.size + 1, self.size) if self.mask is None else (self.size, self.mask)

    @property
    def with_pad(self) -> int:
        """The size with a padding token: one more where there is none."""
        return self.size + (self.pad is None)


def read(folder: Path) -> Vocabulary:
    """From a tokenizer's folder (`tokenizer.json` of the tokenizers library)."""
    document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    ids = dict(document["model"]["vocab"])
    ids |= {entry["content"]: entry["id"] for entry in document["added_tokens"]}
    begin = ids.get("[CLS]", ids.get("<|endoftext|>", 0))
    return Vocabulary(max(ids.values()) + 1, ids.get("[MASK]"), ids.get("[PAD]"), begin)

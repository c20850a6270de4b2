"""A document's ids from the remembered ids of its words: a tokenizer's result, much sooner.

Two families of tokenizers treat the words between single spaces on their own, whatever stands
around them, so that a word seen before need not be tokenised again:

- BERT's: its normaliser works character by character (decomposition reorders nothing across a
  space), and its splitter never keeps a space.
- GPT-2's: its pattern keeps a space only in front of a word. Between two characters that are
  no white space, a single space always begins a piece, and a double line break is two pieces.
  Texts with other runs of white space, or with a special token, are tokenised whole.

For any other tokenizer there is no such shortcut here. That the ids are the tokenizer's own is
tested on arbitrary text.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LIMIT = 400_000  # words remembered: about 100 MB
_RUN = re.compile(r"\s\s")
Encode = Callable[[Sequence[str]], list[bytes]]  # each text's ids as little-endian uint16


def whole(tokenizer: "Tokenizer") -> Encode:
    """The tokenizer's own ids of each text."""

    def encode(texts: Sequence[str]) -> list[bytes]:
        found = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, "<u2").tobytes() for encoding in found]

    return encode


class _Words(dict[str, bytes]):
    """Ids of words, asked of the tokenizer once; `before` is put in front of each."""

    def __init__(self, ask: Encode, before: str = "") -> None:
        self.ask, self.before = ask, before

    def learn(self, words: Iterable[str]) -> None:
        """Make sure that every one of `words` is known."""
        if len(self) > _LIMIT:
            self.clear()
        new = list(set(filterfalse(self.__contains__, words)))
        if new:
            self.update(zip(new, self.ask([self.before + word for word in new]), strict=True))


def _by_words(tokenizer: "Tokenizer") -> Encode:
    known = _Words(whole(tokenizer))

    def encode(texts: Sequence[str]) -> list[bytes]:
        words = [text.split(" ") for text in texts]
        known.learn(chain.from_iterable(words))
        return [b"".join(map(known.__getitem__, each)) for each in words]

    return encode


def _by_spaced_words(tokenizer: "Tokenizer", special: list[str]) -> Encode:
    ask = whole(tokenizer)
    first, later = _Words(ask), _Words(ask, before=" ")
    line_break = ask(["\n"])[0] * 2

    def paragraph(words: list[str]) -> bytes:
        return first[words[0]] + b"".join(map(later.__getitem__, words[1:]))

    def regular(texts: Sequence[str]) -> list[bytes]:
        words = [[part.split(" ") for part in text.split("\n\n")] for text in texts]
        parts = list(chain.from_iterable(words))
        first.learn(part[0] for part in parts)
        later.learn(chain.from_iterable(part[1:] for part in parts))
        return [line_break.join(map(paragraph, each)) for each in words]

    def encode(texts: Sequence[str]) -> list[bytes]:
        odd = [
            any(token in text for token in special) or not all(map(_regular, text.split("\n\n")))
            for text in texts
        ]
        shortened = iter(regular([t for t, is_odd in zip(texts, odd, strict=True) if not is_odd]))
        asked = iter(ask([text for text, is_odd in zip(texts, odd, strict=True) if is_odd]))
        return [next(asked if is_odd else shortened) for is_odd in odd]

    return encode


def _regular(paragraph: str) -> bool:
    """Whether each run of white space is one character, and none is at an end."""
    return bool(paragraph) and paragraph.strip() == paragraph and not _RUN.search(paragraph)


def encoder(tokenizer: "Tokenizer", folder: Path) -> Encode:
    """The fastest way to texts' ids that is exact for the tokenizer in `folder`."""
    about: Any = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    kinds = [(about[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
    # A token added by hand could hold a space, or swallow one beside it.
    plain = not any(
        " " in token["content"] or token["lstrip"] or token["rstrip"] or token["single_word"]
        for token in about["added_tokens"]
    )
    splitter = about["pre_tokenizer"] or {}
    if plain and kinds == ["BertNormalizer", "BertPreTokenizer", "WordPiece"]:
        return _by_words(tokenizer)
    regular = not splitter.get("add_prefix_space") and splitter.get("use_regex", True)
    if plain and regular and kinds == [None, "ByteLevel", "BPE"]:
        return _by_spaced_words(tokenizer, [token["content"] for token in about["added_tokens"]])
    return whole(tokenizer)

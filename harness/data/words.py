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
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LIMIT = 40 << 20  # bytes of words remembered: about 200 000 of them
_LONGEST = 256  # characters of a word worth it; what has no spaces (Chinese, say) is one word
_SLOT = 100  # bytes of a word's place in a dict
_SPACE = re.compile(r"\s")
_RUN = re.compile(r"\s\s")
Encode = Callable[[str], bytes]  # a text's ids as little-endian uint16


def whole(tokenizer: "Tokenizer") -> Encode:
    """The tokenizer's own ids of a text."""

    def encode(text: str) -> bytes:
        # A batch of one: only batches can be had without offsets, which cost time.
        [found] = tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return np.array(found.ids, "<u2").tobytes()

    return encode


class _Words(dict[str, bytes]):
    """The ids of words, each asked for once, in bounded memory."""

    def __init__(self, ask: Encode) -> None:
        self.ask, self.held = ask, 0

    def __missing__(self, word: str) -> bytes:
        ids = self.ask(word)
        if len(word) <= _LONGEST:
            if self.held >= _LIMIT:
                self.clear()
                self.held = 0
            self[word] = ids
            self.held += sys.getsizeof(word) + sys.getsizeof(ids) + _SLOT
        return ids


def _by_words(tokenizer: "Tokenizer") -> Encode:
    ids_of = _Words(whole(tokenizer)).__getitem__

    def encode(text: str) -> bytes:
        return b"".join(map(ids_of, text.split(" ")))

    return encode


class _Irregular(Exception):
    """A word whose ids depend on what stands beside it."""


def _by_spaced_words(tokenizer: "Tokenizer", special: list[str]) -> Encode:
    ask = whole(tokenizer)

    def checked(word: str) -> str:
        """`word`, where white space in it is single and inside, and it holds no special token."""
        if word.strip() != word or not word or _RUN.search(word):
            raise _Irregular
        if any(token in word for token in special):
            raise _Irregular
        return word

    first = _Words(lambda word: ask(checked(word))).__getitem__
    later = _Words(lambda word: ask(" " + checked(word))).__getitem__
    line_break = ask("\n") * 2

    def paragraph(text: str) -> bytes:
        start, *rest = text.split(" ")
        return b"".join([first(start), *map(later, rest)])

    def encode(text: str) -> bytes:
        try:
            return line_break.join(map(paragraph, text.split("\n\n")))
        except _Irregular:
            return ask(text)

    return encode


def encoder(tokenizer: "Tokenizer", folder: Path) -> Encode:
    """The fastest way to a text's ids that is exact for the tokenizer in `folder`."""
    about: Any = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    kinds = [(about[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
    # A token added by hand could hold a space, or swallow one beside it.
    plain = not any(
        _SPACE.search(token["content"])
        or token["lstrip"]
        or token["rstrip"]
        or token["single_word"]
        for token in about["added_tokens"]
    )
    splitter = about["pre_tokenizer"] or {}
    if plain and kinds == ["BertNormalizer", "BertPreTokenizer", "WordPiece"]:
        return _by_words(tokenizer)
    regular = not splitter.get("add_prefix_space") and splitter.get("use_regex", True)
    if plain and regular and kinds == [None, "ByteLevel", "BPE"]:
        return _by_spaced_words(tokenizer, [token["content"] for token in about["added_tokens"]])
    return whole(tokenizer)

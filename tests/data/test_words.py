"""The shortcut over words gives the tokenizer's own ids, whatever the text."""

import sys
from pathlib import Path

import pytest
import real_tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from harness.data import tokenizer, words
from harness.data.tokenise import load

ODD = [" ", "  ", "\n", "\n\n", "\n\n\n", "\t", "\r\n", "\x00", "\x1c", "\x85", "\u00a0", "\u2003"]
ODD += ["\u3000", "\u0301", "e\u0301", "中", "ﬁ", "İ", "ß", "😀", "'s", "'ll", "don't", "x", "the"]
ODD += ["[MASK]", "[CLS]", "<|endoftext|>", "Word", "123", "...", '"', "\ufffd", "\u2028"]
TEXT = st.lists(st.sampled_from(ODD) | st.text(max_size=3), max_size=15).map("".join)


Ways = dict[str, tuple[words.Encode, words.Encode]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tokenizer folders: the embedded families, and the real ones where installed."""
    found = {}
    for family in ("wordpiece", "byte-pair"):
        folder = tmp_path_factory.mktemp(family)
        for name, data in tokenizer.build(family, ["The word of the day", "Words, 123"]).items():
            (folder / name).write_bytes(data)
        found[family] = folder
    for name, make in (("bert", real_tokenizers.bert), ("gpt2", real_tokenizers.gpt2)):
        real = make(tmp_path_factory.mktemp(name))
        if real is not None:
            found[name] = real
    return found


@pytest.fixture(scope="module")
def ways(folders: dict[str, Path]) -> Ways:
    """Of each tokenizer: the shortcut, and its own way."""
    loaded = {name: load(folder) for name, folder in folders.items()}
    return {
        name: (words.encoder(loaded[name], folder), words.whole(loaded[name]))
        for name, folder in folders.items()
    }


@given(st.lists(TEXT, max_size=6))
@example(["a\n\n<|endoftext|>b", "a \n\nb", " a ", "a\n\nb c", "a\nb"])
def test_ids_are_the_tokenizers(ways: Ways, texts: list[str]) -> None:
    for shortcut, own in ways.values():
        assert list(map(shortcut, texts)) == list(map(own, texts))


def test_every_tokenizer_here_has_the_shortcut(ways: Ways) -> None:
    for shortcut, own in ways.values():
        assert shortcut.__qualname__ != own.__qualname__


def test_forgetting_changes_nothing(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_LIMIT", 500)
    for folder in folders.values():
        loaded = load(folder)
        encode, own = words.encoder(loaded, folder), words.whole(loaded)
        for number in range(20):
            text = f"word {number} of the day {number * 7}"
            assert (encode(text), encode(text[3:])) == (own(text), own(text[3:]))


@pytest.mark.parametrize("length", [200, 3000])
def test_text_without_spaces_does_not_fill_the_memory(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_LIMIT", 100_000)
    remembered = words._Words(lambda word: word.encode("utf-16-le"))
    for number in range(1000):
        word = chr(0x4E00 + number) * length
        assert remembered[word] == word.encode("utf-16-le")
        held = sum(sys.getsizeof(word) + sys.getsizeof(ids) for word, ids in remembered.items())
        assert held < 2 * words._LIMIT


def test_a_tokenizer_that_puts_a_space_first_is_asked_whole(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    text = (folders["byte-pair"] / "tokenizer.json").read_text()
    changed = text.replace('"add_prefix_space": false', '"add_prefix_space": true')
    (tmp_path / "tokenizer.json").write_text(changed)
    loaded = load(tmp_path)
    assert words.encoder(loaded, tmp_path)("the word") == words.whole(loaded)("the word")

"""The embedded tokenizers: small vocabularies counted from an embedded corpus, in files we write.

The JSON is written here and not by a library, so that its bytes never depend on a version.
Layouts: `tokenizer.json` of the tokenizers library, and the vocabulary and configuration files
that transformers' BertTokenizerFast and GPT2TokenizerFast look for.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from harness.canonical import digest

VERSION = 1
# BERT's special tokens stand at the ids of bert-base-uncased.
BERT_SPECIALS = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}
_FIRST_WORD = 104
_WORDS, _ENDINGS = 320, 60
_MERGES = 700
END_OF_TEXT = "<|endoftext|>"


def revision(files: dict[str, bytes]) -> str:
    """A commit-like name for a tokenizer's files: 40 hex digits of their digest."""
    return digest({name: data.hex() for name, data in files.items()})[:40]


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


def _added(token: str, number: int) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **flags, "special": True}


def wordpiece_vocabulary(texts: Iterable[str]) -> list[str]:
    """Special tokens at BERT's places, then characters, frequent words and frequent endings."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(re.findall(r"\w+|[^\w\s]", text.lower()))
    characters = sorted({character for word in words for character in word})
    vocabulary = [f"[unused{number}]" for number in range(_FIRST_WORD)]
    for token, number in BERT_SPECIALS.items():
        vocabulary[number] = token
    vocabulary += characters + [f"##{c}" for c in characters if c.isalnum()]
    ranked = sorted(words, key=lambda word: (-words[word], word))
    vocabulary += [word for word in ranked if len(word) > 1][:_WORDS]
    endings: Counter[str] = Counter()
    for word in ranked[_WORDS // 2 :]:
        for length in range(2, min(5, len(word))):
            endings[word[-length:]] += words[word]
    by_use = sorted(endings, key=lambda ending: (-endings[ending], ending))
    return vocabulary + [f"##{ending}" for ending in by_use[:_ENDINGS]]


def wordpiece_files(vocabulary: list[str]) -> dict[str, bytes]:
    """The files of a BERT-like tokenizer with this vocabulary."""
    ids = {token: number for number, token in enumerate(vocabulary)}
    cls, sep = ("[CLS]", BERT_SPECIALS["[CLS]"]), ("[SEP]", BERT_SPECIALS["[SEP]"])
    normalizer = {
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
    }
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": ids,
    }
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(token, number) for token, number in BERT_SPECIALS.items()],
        "normalizer": {"type": "BertNormalizer", **normalizer, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": sep, "cls": cls},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": model,
    }
    names = {f"{name.strip('[]').lower()}_token": name for name in BERT_SPECIALS}
    return {
        "vocab.txt": "".join(f"{token}\n" for token in vocabulary).encode(),
        "tokenizer.json": _json(document),
        "tokenizer_config.json": _json(
            {
                **names,
                "tokenizer_class": "BertTokenizer",
                "do_lower_case": True,
                "model_max_length": 512,
            }
        ),
        "special_tokens_map.json": _json(names),
        "config.json": _json({"model_type": "bert", "vocab_size": len(vocabulary)}),
    }


def byte_alphabet() -> dict[int, str]:
    """GPT-2's printable stand-in for each byte: itself where printable, else 256 upwards.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in printable}
    hidden = (byte for byte in range(256) if byte not in table)
    return table | {byte: chr(256 + place) for place, byte in enumerate(hidden)}


# GPT-2's split, without the contractions' and other scripts' cases: our text is ASCII.
_PIECES = re.compile(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def byte_pair_merges(texts: Iterable[str]) -> list[tuple[str, str]]:
    """The most frequent pairs, merged one after another; ties go to the smaller pair.

    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units".
    """
    alphabet = byte_alphabet()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_PIECES.findall(text))
    words = {
        tuple(alphabet[byte] for byte in piece.encode()): count for piece, count in counts.items()
    }
    merges: list[tuple[str, str]] = []
    while len(merges) < _MERGES:
        pairs: Counter[tuple[str, str]] = Counter()
        for symbols, count in words.items():
            for pair in pairwise(symbols):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = {_merged(symbols, best): count for symbols, count in words.items()}
    return merges


def _merged(symbols: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    out: list[str] = []
    for symbol in symbols:
        if out and (out[-1], symbol) == pair:
            out[-1] += symbol
        else:
            out.append(symbol)
    return tuple(out)


def byte_pair_files(merges: list[tuple[str, str]]) -> dict[str, bytes]:
    """The files of a GPT-2-like tokenizer: 256 bytes, the merges, `<|endoftext|>` last."""
    tokens = [byte_alphabet()[byte] for byte in sorted(byte_alphabet())]
    tokens = sorted(tokens, key=ord) + ["".join(pair) for pair in merges] + [END_OF_TEXT]
    ids = {token: number for number, token in enumerate(tokens)}
    end = ids[END_OF_TEXT]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
        "fuse_unk": False,
        "vocab": ids,
        "merges": [" ".join(pair) for pair in merges],
    }
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(END_OF_TEXT, end) | {"normalized": True}],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": {**level, "add_prefix_space": True, "trim_offsets": False},
        "decoder": {**level, "add_prefix_space": True},
        "model": model,
    }
    names = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT)
    settings = {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 1024}
    return {
        "vocab.json": _json(ids),
        "merges.txt": ("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges)).encode(),
        "tokenizer.json": _json(document),
        "tokenizer_config.json": _json({**names, **settings, "add_prefix_space": False}),
        "special_tokens_map.json": _json(names),
        "config.json": _json(
            {
                "model_type": "gpt2",
                "vocab_size": len(tokens),
                "bos_token_id": end,
                "eos_token_id": end,
            }
        ),
    }


def build(family: str, texts: Iterable[str]) -> dict[str, bytes]:
    """The files of an embedded tokenizer of a family (`wordpiece` or `byte-pair`)."""
    if family == "wordpiece":
        return wordpiece_files(wordpiece_vocabulary(texts))
    return byte_pair_files(byte_pair_merges(texts))

"""Tokenizers of both kinds: with a mask token, and without."""

import json
from pathlib import Path

from vocabulary import Vocabulary, read


def test_special_tokens_and_the_states_added_for_missing_ones(tmp_path: Path) -> None:
    added = [{"content": "[MASK]", "id": 3}, {"content": "[PAD]", "id": 0}]
    document = {"model": {"vocab": {"[PAD]": 0, "a": 1, "b": 2}}, "added_tokens": added}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    bert = read(tmp_path)
    assert bert == Vocabulary(size=4, mask=3, pad=0)
    assert (bert.with_mask, bert.with_pad) == ((4, 3), 4)
    document = {"model": {"vocab": {"a": 0, "<|endoftext|>": 1}}, "added_tokens": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    gpt = read(tmp_path)
    assert gpt == Vocabulary(size=2, mask=None, pad=None, begin=1)
    assert (gpt.with_mask, gpt.with_pad) == ((3, 2), 3)

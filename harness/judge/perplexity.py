"""Generative perplexity: how likely a causal model finds the text of samples.

As the papers' trainers measure it: the text is tokenised again by the judge's own tokenizer, cut
to a length, and every token but a row's first counts, end-of-text marks only once a row. They
pad rows to a batch's longest, and count one mark of the padding too; here nothing is padded.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .gpt2 import GPT2

MOST = 4096  # tokens scored at once: their scores are as large as the vocabulary


def generative_perplexity(model: GPT2, rows: Sequence[Sequence[int]]) -> tuple[float, int]:
    """exp of the mean -log p of the tokens that count, and their number.

    A row longer than the model's longest is scored in parts. Raises ValueError where nothing
    counts.
    """
    total, count = 0.0, 0
    longest = model.shape.n_positions
    parts = [row[at : at + longest] for row in rows for at in range(0, len(row), longest)]
    for batch in _batches([part for part in parts if len(part) > 1]):
        scores = model.logits(batch)[:, :-1]
        nll = F.cross_entropy(scores.transpose(1, 2), batch[:, 1:], reduction="none")
        counted = _counted(batch, model.shape.eos_token_id)
        total += nll[counted].double().sum().item()
        count += int(counted.sum())
    if not count:
        raise ValueError("no row has a token to score")
    return math.exp(total / count), count


def _batches(rows: Sequence[Sequence[int]]) -> Iterator[Tensor]:
    """Rows of one length together, as (B, L), at most `MOST` tokens (or one row) a batch."""
    for length in sorted({len(row) for row in rows}):
        alike = torch.tensor([list(row) for row in rows if len(row) == length])
        yield from torch.split(alike, max(1, MOST // length))


def _counted(batch: Tensor, end: int) -> Tensor:
    """Which tokens after the first count: (B, L - 1), of rows (B, L)."""
    first = (batch == end).cumsum(-1) == 1  # from a row's first mark to before its second
    return (first | (batch != end))[:, 1:]


def entropy(rows: Sequence[Sequence[int]]) -> float:
    """The mean over rows of the entropy of a row's own token frequencies, in nats."""
    return sum(map(_entropy, rows)) / len(rows)


def _entropy(row: Sequence[int]) -> float:
    shares = [number / len(row) for number in Counter(row).values()]
    return -sum(share * math.log(share) for share in shares)

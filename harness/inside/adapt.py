"""Teachers of one vocabulary made into absorbing ones: the mask state is the last row of all.

The trainers of the masked students number the mask state after the tokenizer's `base` tokens and
add `NEVER` to its logit. Only three tensors have a row a token: the embedding, the head's weight
and its bias. See docs/formats/teacher.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .backbone import Floats
from .refusal import Refusal

Doubles = npt.NDArray[np.float64]
NEVER = -1e6  # what the trainers add to a logit whose token is never to be drawn
BERT_MASK = 103  # [MASK] in BERT's vocabularies, which have one of their own
PROBES = 64
# Both sides are sums of the same numbers, maybe in another order: float64 gets far closer.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Rows:
    """The tensors with a row a token: embedding (V, H), head weight (V, H), head bias (V,)."""

    embedding: Floats
    weight: Floats
    bias: Floats

    def moved(self, size: int, places: dict[int, int]) -> "Rows":
        """`size` rows of zeros, but row `new` is this one's row `places[new]`."""
        new, old = list(places), list(places.values())
        made = []
        for tensor in (self.embedding, self.weight, self.bias):
            rows = np.zeros((size, *tensor.shape[1:]), tensor.dtype)
            rows[new] = tensor[old]
            made.append(rows)
        return Rows(*made)


@dataclass(frozen=True)
class Adapted:
    """The new rows; `mask` is the row the mask state had, `dropped` the row that is no more.

    `kept` are the tokens whose probabilities must come out as they were.
    """

    rows: Rows
    mask: int | None
    dropped: int | None
    kept: tuple[int, ...]


def uniform_to_absorbing(rows: Rows, base: int) -> Adapted:
    """A model without a mask state gets one: a last row of zeros, in a padding row's place."""
    old = _vocabulary(rows, base)
    made = rows.moved(base + 1, {row: row for row in range(base)})
    return Adapted(made, None, base if old > base else None, tuple(range(base)))


def masked_to_absorbing(rows: Rows, base: int) -> Adapted:
    """The mask state moves to the last row; the token it leaves is never drawn again.

    A row of zeros would give that token the logit 0, where the original suppresses it.
    """
    if _vocabulary(rows, base) > base:
        return Adapted(rows, base, None, tuple(range(base)))
    if base <= BERT_MASK:
        raise Refusal(f"a vocabulary of {base} tokens has no mask state {BERT_MASK}")
    kept = [row for row in range(base) if row != BERT_MASK]
    made = rows.moved(base + 1, {**{row: row for row in kept}, base: BERT_MASK})
    made.bias[BERT_MASK] = NEVER
    return Adapted(made, BERT_MASK, None, tuple(kept))


TRANSFORMATIONS: dict[str, Callable[[Rows, int], Adapted]] = {
    "uniform_to_absorbing": uniform_to_absorbing,
    "masked_to_absorbing": masked_to_absorbing,
}


def _vocabulary(rows: Rows, base: int) -> int:
    found = len(rows.bias)
    if found not in (base, base + 1):
        raise Refusal(f"{found} tokens; the dataset's tokenizer has {base}, or {base + 1} with one")
    return found


def check(original: Rows, adapted: Adapted, base: int) -> float:
    """The largest difference of log-probabilities that the adaptation makes, in nats.

    Both models are asked at hidden vectors of several lengths, and along the rows that moved. A
    row that was dropped counts as never drawn. Raises Refusal where a difference is more than
    rounding, where anything but a kept token can be drawn, or where an input's embedding changed.
    """
    kept, rows = list(adapted.kept), adapted.rows
    never = [row for row in (adapted.mask, adapted.dropped) if row is not None]
    for old, new in zip(
        (original.embedding, original.weight, original.bias),
        (rows.embedding, rows.weight, rows.bias),
        strict=True,
    ):
        same = np.array_equal(old[kept], new[kept])
        mask = new[base] if adapted.mask is None else old[adapted.mask]
        if not same or not np.array_equal(new[base], mask):
            raise Refusal("the adapted teacher's rows are not the original's")
    hidden = _probes(original, never)
    before = _log_probabilities(original, hidden, never)
    after = _log_probabilities(rows, hidden, [base])
    rest = np.delete(after, kept, axis=1)
    if np.exp(rest).any():
        raise Refusal("the adapted teacher would draw a token that the original never does")
    difference = float(np.abs(before[:, kept] - after[:, kept]).max())
    if not difference <= TOLERANCE:
        raise Refusal(f"the adapted teacher's log-probabilities differ by {difference:.3g}")
    return difference


def _probes(rows: Rows, along: list[int]) -> Doubles:
    """Hidden vectors (P, H) as the last normalisation leaves them, longer ones, and some rows."""
    width = rows.weight.shape[1]
    drawn = np.random.Generator(np.random.PCG64(0)).standard_normal((PROBES, width))
    drawn *= np.geomspace(0.1, 10, PROBES)[:, None]
    directions = rows.weight[along].astype(np.float64)
    length = np.linalg.norm(directions, axis=1, keepdims=True)
    directions *= np.sqrt(width) / np.maximum(length, 1e-30)
    return np.concatenate((drawn, directions, -directions))


def _log_probabilities(rows: Rows, hidden: Doubles, never: list[int]) -> Doubles:
    """Log-softmax of the head's logits (P, V), `never` suppressed as the trainers do."""
    logits: Doubles = hidden @ rows.weight.T.astype(np.float64) + rows.bias
    logits[:, never] += NEVER
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits

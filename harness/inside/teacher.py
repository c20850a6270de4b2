"""Adapt a teacher's checkpoint to a student's trainer; nothing in it is executed.

`python -m inside.teacher FILE OUT --transformation NAME --weights raw --base 30522 --blocks 12`
writes the adapted state to OUT and prints what it did as one JSON document
(docs/formats/teacher.md). What is refused is one line on stderr and exit status 2.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

from .adapt import TRANSFORMATIONS, Rows, check
from .backbone import BIAS, EMBEDDING, WEIGHT, weights
from .formats import load
from .refusal import Refusal
from .write import write_state


def adapt(source: Path, target: Path, name: str, kind: str, base: int, blocks: int) -> object:
    """Write the adapted teacher to `target`; returns the document that is printed.

    Raises Refusal where the checkpoint does not hold such a teacher, or the adapted one would
    not have its probabilities.
    """
    state = weights(load(source), kind, blocks)
    original = Rows(state[EMBEDDING], state[WEIGHT], state[BIAS])
    made = TRANSFORMATIONS[name](original, base)
    difference = check(original, made, base)
    rows = made.rows
    state |= {EMBEDDING: rows.embedding, WEIGHT: rows.weight, BIAS: rows.bias}
    write_state(target, state)
    return {
        "blocks": blocks,
        "hidden_size": original.weight.shape[1],
        "keys_sha256": hashlib.sha256("\n".join(sorted(state)).encode()).hexdigest(),
        "source_vocabulary": len(original.bias),
        "target_vocabulary": len(rows.bias),
        "source_mask": made.mask,
        "target_mask": base,
        "largest_difference": difference,
    }


def main(arguments: list[str] | None = None) -> int:
    """Adapt one file; a refused one is one line on stderr and exit status 2."""
    parser = argparse.ArgumentParser(prog="teacher", description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--transformation", choices=TRANSFORMATIONS, required=True)
    parser.add_argument("--weights", choices=("raw", "ema"), required=True)
    parser.add_argument("--base", type=int, required=True, help="the tokenizer's tokens")
    parser.add_argument("--blocks", type=int, required=True)
    given = parser.parse_args(arguments)
    try:
        document = adapt(
            *(given.source, given.target),
            *(given.transformation, given.weights, given.base, given.blocks),
        )
    except (Refusal, OSError) as error:
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        return 2
    sys.stdout.write(json.dumps(document, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The workers: blocks of text in, packed-ready token streams out, in order, in bounded memory."""

import ctypes
import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.data.detokenize import RULES
from harness.data.packing import Tokens
from harness.data.sources import Block
from harness.data.words import Encode, encoder
from harness.errors import HarnessError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_PR_SET_PDEATHSIG = 1
_MOST = 8  # processes unless more are asked for: together they stay below 2 GiB


@dataclass(frozen=True)
class Tokenisation:
    """How text becomes ids."""

    tokenizer: Path
    eos: int
    detokenizer: str | None


class _Worker:
    """A process's own way to tokenise, made once."""

    how: Tokenisation
    encode: Encode


def _start(how: Tokenisation, parent: int) -> None:
    # A killed parent takes its workers along; a Ctrl-C is the parent's to handle.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one core a worker
    _Worker.how, _Worker.encode = how, encoder(load(how.tokenizer), how.tokenizer)


def default_processes() -> int:
    """One a usable core, as far as memory is meant to allow."""
    return min(len(os.sched_getaffinity(0)), _MOST)


def load(folder: Path) -> "Tokenizer":
    """The tokenizer of a snapshot folder, without truncation or padding."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def tokenise(encode: Encode, how: Tokenisation, block: Block) -> bytes:
    """The token stream of a block as uint16: every document's ids, EOS after each."""
    rule = RULES[how.detokenizer] if how.detokenizer else str
    end = how.eos.to_bytes(2, "little")
    pieces: list[bytes] = []
    for texts in block.texts():
        pieces += [encode(rule(text)) for text in texts]
    return end.join([*pieces, b""])


def _tokenise_here(block: Block) -> bytes:
    return tokenise(_Worker.encode, _Worker.how, block)


def _stream(tokens: bytes) -> Tokens:
    return np.frombuffer(tokens, "<u2")


def streams(blocks: Sequence[Block], how: Tokenisation, processes: int) -> Iterator[Tokens]:
    """The token streams of `blocks`, in their order; at most a few are held at once.

    Raises HarnessError where a worker process dies (out of memory, say).
    """
    # Few blocks are done before processes have started.
    if processes <= 1 or len(blocks) <= 4 * processes:
        encode = encoder(load(how.tokenizer), how.tokenizer)
        yield from (_stream(tokenise(encode, how, block)) for block in blocks)
        return
    waiting: deque[Future[bytes]] = deque()
    left = iter(blocks)
    # Spawned, not forked: a fork copies whatever locks the parent's threads hold.
    with ProcessPoolExecutor(
        processes, get_context("spawn"), initializer=_start, initargs=(how, os.getpid())
    ) as pool:
        try:
            for block in left:
                waiting.append(pool.submit(_tokenise_here, block))
                if len(waiting) >= 3 * processes:
                    yield _stream(waiting.popleft().result())
            while waiting:
                yield _stream(waiting.popleft().result())
        except BrokenProcessPool as error:
            raise HarnessError(
                "a tokenising process died (out of memory?); run the same command to go on, "
                "with fewer --processes"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

"""Token stores: the processing `sentence_stores`, version 1, for the ensemble's trainer.

Each split becomes two flat files. `tokens.u16` is the stream of all documents, EOS after each;
`sentences.u32` has a row a sentence: its tokens, its characters, and whether a document ends with
it (its last token is then the EOS, which has no characters). A sentence of more tokens than the
context is cut into pieces, the first of which has its characters. `stores.json` beside them gives
every count and digest: the trainer, which maps the files, is given the digest of that one.
Format: docs/formats/stores.md.
"""

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from harness.canonical import canonical_json
from harness.data import manifest
from harness.data.manifest import Manifest, SplitCounts
from harness.data.pins import Split
from harness.data.prepare import Work, raw_blocks, reusable
from harness.data.progress import Progress
from harness.data.tokenise import load
from harness.data.words import Encode, whole
from harness.files import naming, publish_bytes, sha256_file, sync_folder
from harness.json_files import read_json

MANIFEST = "stores.json"
TOKENS, SENTENCES = "tokens.u16", "sentences.u32"
COLUMNS = ("tokens", "characters", "ends_document")
_TELL = 256  # documents between reports
# A sentence ends after its mark (and what closes behind it), or with a line.
_END = re.compile(r"[.?!。！？]+[\"')\]」』）]*(?=\s)|[。！？]+[」』）]*|(?<=\S)(?=\n)")  # noqa: RUF001


def sentences(text: str) -> list[str]:
    """The sentences of a text, no character lost: white space is the next one's beginning."""
    marks = [0, *(match.end() for match in _END.finditer(text)), len(text)]
    return [text[start:stop] for start, stop in pairwise(marks) if start < stop]


@dataclass
class _Counts:
    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    characters: int = 0
    cut: int = 0
    smallest: int = 1 << 16
    largest: int = 0


def _pieces(ids: Sequence[int], characters: int, context: int) -> Iterator[tuple[int, int]]:
    """Tokens and characters of a sentence, or of the pieces of one that exceeds the context."""
    for start in range(0, len(ids), context):
        yield min(context, len(ids) - start), 0 if start else characters


def _document(
    encode: Encode, text: str, eos: int, context: int, counts: _Counts
) -> tuple[NDArray[np.uint16], list[tuple[int, int, int]]]:
    """A document's ids with its EOS, and its rows."""
    found = sentences(text)
    ids = [np.frombuffer(one, "<u2").tolist() for one in map(encode, found)]
    ids[-1].append(eos)
    rows = [
        (tokens, characters, 0)
        for one, sentence in zip(ids, found, strict=True)
        for tokens, characters in _pieces(one, len(sentence), context)
    ]
    rows[-1] = (*rows[-1][:2], 1)
    stream = np.array([token for one in ids for token in one], "<u2")
    counts.documents += 1
    counts.sentences += len(rows)
    counts.tokens += len(stream)
    counts.characters += len(text)
    counts.cut += sum(len(one) > context for one in ids)
    counts.smallest = min(counts.smallest, int(stream.min()))
    counts.largest = max(counts.largest, int(stream.max()))
    return stream, rows


def _write(work: Work, split: Split, folder: Path, progress: Progress) -> _Counts:
    folder.mkdir(parents=True)
    stage = f"{work.dataset.key} {split.name} documents"
    contract, counts = work.contract, _Counts()
    eos, context = int(str(contract["eos"])), work.dataset.sequence_length
    encode = whole(load(work.tokenizer))
    texts = (text for block in raw_blocks(work, split) for part in block.texts() for text in part)
    with (
        naming(folder),
        (folder / TOKENS).open("wb") as tokens,
        (folder / SENTENCES).open("wb") as rows,
    ):
        for text in filter(str.strip, texts):
            _append(tokens, rows, *_document(encode, text, eos, context, counts))
            if counts.documents % _TELL == 0:
                progress(stage, counts.documents, split.documents)
    progress(stage, split.documents, split.documents)
    return counts


def _append(
    tokens: BinaryIO,
    rows: BinaryIO,
    stream: NDArray[np.uint16],
    found: list[tuple[int, int, int]],
) -> None:
    tokens.write(stream.tobytes())
    rows.write(np.array(found, "<u4").tobytes())


def prepare(work: Work, progress: Progress) -> Manifest:
    """The token stores of a dataset, made anew unless whole; published before their manifest.

    Raises Refused where the raw files are not those of the contract.
    """
    places, name = work.places, work.dataset.processed
    found = reusable(places, name, work.contract)
    if found is not None:
        return found
    places.manifest(name).unlink(missing_ok=True)
    part = places.partial(name)
    for old in (part, places.processed(name)):
        shutil.rmtree(old, ignore_errors=True)
    counts = {
        split.name: _write(work, split, part / split.name, progress)
        for split in work.dataset.splits
    }
    publish_bytes(part / MANIFEST, canonical_json(_record(work, counts, part)) + b"\n")
    splits = {
        name: SplitCounts(c.documents, c.sentences, c.smallest, c.largest)
        for name, c in counts.items()
    }
    result = Manifest(work.contract, splits, manifest.inventory(part, {}), manifest.now())
    part.rename(places.processed(name))
    sync_folder(places.processed(name).parent)
    manifest.publish(places.manifest(name), result)
    return result


def _record(work: Work, counts: dict[str, _Counts], part: Path) -> dict[str, object]:
    contract = work.contract
    return {
        "schema_version": 1,
        "packing": contract["packing"],
        "context": work.dataset.sequence_length,
        "vocabulary": contract["vocabulary"],
        "bos": contract["bos"],
        "eos": contract["eos"],
        "stores": {
            name: {
                "documents": c.documents,
                "sentences": c.sentences,
                "tokens": c.tokens,
                "characters": c.characters,
                "cut": c.cut,
                "files": {
                    file: {
                        "size": (part / name / file).stat().st_size,
                        "sha256": sha256_file(part / name / file),
                    }
                    for file in (TOKENS, SENTENCES)
                },
            }
            for name, c in counts.items()
        },
    }


def rows(folder: Path, found: Manifest, split: str) -> Iterator[str]:
    """How a split's files differ from what `stores.json` and the manifest say, a line each."""
    record: Any = read_json(folder / MANIFEST)
    said, counts = record["stores"][split], found.splits[split]
    tokens = np.fromfile(folder / split / TOKENS, "<u2")
    table = np.fromfile(folder / split / SENTENCES, "<u4")
    if len(table) % len(COLUMNS):
        yield f"split {split}: {SENTENCES} does not hold whole rows"
        return
    table = table.reshape(-1, len(COLUMNS))
    lengths, characters, ends = (table[:, column].astype(np.int64) for column in range(3))
    last = np.cumsum(lengths) - 1
    whole_stream = int(lengths.sum()) == len(tokens)
    claims = {
        "sentences": len(table) == counts.sequences == said["sentences"],
        "documents": int(ends.sum()) == counts.documents == said["documents"],
        "characters": int(characters.sum()) == said["characters"],
        "tokens": whole_stream and len(tokens) == said["tokens"],
        "the context": bool((lengths >= 1).all() and (lengths <= found.sequence_length).all()),
        "EOS after each document": whole_stream
        and bool((tokens[last[ends == 1]] == found.contract["eos"]).all()),
        "smallest and largest id": (int(tokens.min()), int(tokens.max()))
        == (counts.smallest_id, counts.largest_id),
        "the vocabulary": int(tokens.max()) < found.contract["vocabulary"],
    }
    yield from (f"split {split}: {name} do not hold" for name, holds in claims.items() if not holds)


def sample(
    folder: Path, found: Manifest, tokenizer: Path, count: int
) -> list[tuple[str, int, str]]:
    """Sentences spread evenly over each split, decoded: split, row number, text."""
    decoder, texts = load(tokenizer), []
    for split, counts in found.splits.items():
        table = np.fromfile(folder / split / SENTENCES, "<u4").reshape(-1, len(COLUMNS))
        tokens = np.memmap(folder / split / TOKENS, "<u2", mode="r")
        stops = np.cumsum(table[:, 0], dtype=np.int64)
        for row in np.unique(np.linspace(0, counts.sequences - 1, count).astype(int)):
            ids = tokens[stops[row] - table[row, 0] : stops[row]]
            text = decoder.decode(ids.tolist(), skip_special_tokens=False)
            texts.append((split, int(row), text))
    return texts

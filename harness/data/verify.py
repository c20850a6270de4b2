"""Reading a processed set, every byte and every row, against its manifest."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.data import arrow, bridge, manifest, raw, ready, stores
from harness.data.digests import Digests
from harness.data.manifest import Manifest, SplitCounts
from harness.data.pins import STORES
from harness.data.places import Places
from harness.data.progress import Progress
from harness.data.tokenise import load
from harness.project import Project


@dataclass(frozen=True)
class Verdict:
    """What verification found: every difference as one line; none means all holds."""

    manifest: Manifest
    rows: int
    problems: tuple[str, ...]


def verify(places: Places, name: str, progress: Progress) -> Verdict:
    """Read the set `name` whole: digests, lengths, marks, masks, ids, counts.

    No remembered digest is believed. Raises Refused where there is no valid manifest or a file
    is no Arrow stream.
    """
    found, folder = manifest.read(places.manifest(name)), places.processed(name)
    problems = manifest.differences(found, folder)
    if problems:
        return Verdict(found, 0, tuple(problems))
    wanted = {folder / file.path: file.sha256 for file in found.files}
    for path, sha256 in Digests(places.digests, full=True).of(wanted, progress).items():
        if sha256 != wanted[path]:
            problems.append(f"{path}: digest differs from the manifest; prepare the dataset again")
    if problems:
        return Verdict(found, 0, tuple(problems))
    stored = found.contract["packing"] == STORES
    rows = 0
    for split, counts in found.splits.items():
        progress(f"{name} {split} rows", 0, counts.sequences)
        if stored:
            problems += stores.rows(folder, found, split)
        else:
            problems += _split(folder / split, found, split, counts)
        rows += counts.sequences
        progress(f"{name} {split} rows", counts.sequences, counts.sequences)
    return Verdict(found, rows, tuple(problems))


def _split(folder: Path, found: Manifest, split: str, counts: SplitCounts) -> list[str]:
    contract = found.contract
    rows, smallest, largest = 0, 1 << 16, 0
    marks_hold = masks_hold = True
    for path in arrow.shard_paths(folder):
        for ids, masks in arrow.batches(path, found.sequence_length):
            rows += len(ids)
            smallest, largest = (
                min(smallest, int(ids.min())),
                max(largest, int(ids.max())),
            )
            marks_hold &= bool((ids[:, 0] == contract["bos"]).all())
            marks_hold &= bool((ids[:, -1] == contract["eos"]).all())
            masks_hold &= bool((masks == 1).all())
    seen = SplitCounts(counts.documents, rows, smallest, largest)
    claims = {
        f"{rows} rows, ids {smallest}-{largest}; the manifest says {counts}": seen == counts,
        f"an id is outside the vocabulary of {contract['vocabulary']}": largest
        < contract["vocabulary"],
        "a row does not begin with BOS and end with EOS": marks_hold,
        "an attention mask is not all one": masks_hold,
    }
    return [f"split {split}: {claim}" for claim, holds in claims.items() if not holds]


def verify_around(project: Project, key: str, progress: Progress) -> list[str]:
    """Read what lies around a processed set: raw text, tokenizer, training caches, every byte.

    Returns a line for each; raises Refused at the first difference. Digests that the project
    remembers are believed, unless it distrusts them.
    """
    prepared = ready.prepared(project, key)
    digests, lines = Digests.of_project(project), ["raw text: gone"]
    if raw.folder(prepared.places, prepared.dataset).exists():
        files = raw.check(prepared.places, prepared.dataset, digests, progress)
        lines = [f"raw text: {len(files)} files as pinned or fetched"]
    for layout in bridge.layouts(prepared.dataset):
        ready.inputs(project, key, layout)
        lines.append(f"training cache {layout}: as prepared, with its tokenizer")
    return lines


def sample(places: Places, name: str, tokenizer: Path, count: int) -> list[tuple[str, int, str]]:
    """Rows spread evenly over each split, decoded: split, row number, text."""
    found, decoder = manifest.read(places.manifest(name)), load(tokenizer)
    if found.contract["packing"] == STORES:
        return stores.sample(places.processed(name), found, tokenizer, count)
    texts = []
    for split, counts in found.splits.items():
        wanted = np.unique(np.linspace(0, counts.sequences - 1, count).astype(int))
        at = 0
        for path in arrow.shard_paths(places.processed(name) / split):
            for ids, _ in arrow.batches(path, found.sequence_length):
                for row in wanted[(wanted >= at) & (wanted < at + len(ids))]:
                    text = decoder.decode(ids[row - at].tolist(), skip_special_tokens=False)
                    texts.append((split, int(row), text))
                at += len(ids)
    return texts

"""Raw text to a processed set: tokenise, pack, write shards, publish; resumed by shard.

The set grows in a hidden folder with a journal. After every finished shard the journal says
which block of text the next row begins in, and how many of that block's tokens are used up. A
kill loses at most the shard being written. The result does not depend on where work stopped or
how many processes worked.
"""

import shutil
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.canonical import digest
from harness.data import arrow, manifest
from harness.data.digests import Digests
from harness.data.manifest import File, Manifest, SplitCounts
from harness.data.packing import Packer, Tokens
from harness.data.pins import Dataset, Model, Split
from harness.data.places import Places
from harness.data.progress import Progress
from harness.data.sources import Block, plan
from harness.data.tokenise import Tokenisation, streams
from harness.errors import Refused
from harness.files import sync_folder
from harness.json_files import publish_json, read_json

_JOURNAL = "journal.json"


@dataclass(frozen=True)
class Work:
    """One processed set to make: from what, how, and where."""

    dataset: Dataset
    model: Model
    raw: Path
    tokenizer: Path
    places: Places
    processes: int
    inputs: str = ""  # the digest of the digests of text and tokenizer

    @property
    def contract(self) -> dict[str, object]:
        """The processing contract."""
        return manifest.contract(self.dataset, self.model)


@dataclass(frozen=True)
class Position:
    """How far a split has come: finished shards, and where in the text the next row begins."""

    plan: str
    shards: tuple[arrow.Shard, ...] = ()
    block: int = 0
    skip: int = 0
    done: bool = False


def reusable(places: Places, name: str, wanted: dict[str, object]) -> Manifest | None:
    """The manifest of a set in place that was made under this contract, every byte right, or None.

    Digests are remembered by what `stat` says of a file: `verify` corrects what is remembered.
    """
    path, folder = places.manifest(name), places.processed(name)
    if not (path.is_file() and folder.is_dir()):
        return None
    try:
        found = manifest.read(path)
    except Refused:
        return None
    if dict(found.contract) != wanted or manifest.differences(found, folder):
        return None
    files = {folder / file.path: file.sha256 for file in found.files}
    return found if Digests(places.digests).of(files) == files else None


def prepare(work: Work, progress: Progress) -> Manifest:
    """The processed set, made or finished or found whole; published before its manifest.

    Raises Refused where the raw files are not those of the contract.
    """
    places, name = work.places, work.dataset.processed
    found = reusable(places, name, work.contract)
    if found is not None:
        return found
    places.manifest(name).unlink(missing_ok=True)
    if places.processed(name).exists():
        shutil.rmtree(places.processed(name))
    journal = _Journal.opened(places.partial(name), digest([work.contract, work.inputs]))
    splits: dict[str, SplitCounts] = {}
    known: dict[str, File] = {}
    for split in work.dataset.splits:
        position = _pack_split(work, split, journal, progress)
        splits[split.name] = _counts(split, position.shards)
        known |= {
            f"{split.name}/{shard.name}": File(
                f"{split.name}/{shard.name}", shard.size, shard.sha256
            )
            for shard in position.shards
        }
    return _publish(work, journal, splits, known)


def _publish(
    work: Work,
    journal: "_Journal",
    splits: dict[str, SplitCounts],
    known: dict[str, File],
) -> Manifest:
    places, name = work.places, work.dataset.processed
    result = Manifest(work.contract, splits, (), manifest.now())
    for split in splits:
        names = [shard.name for shard in journal.positions[split].shards]
        fingerprint = digest([result.fingerprint, split])
        length = work.dataset.sequence_length
        folder = journal.folder / split
        arrow.write_folder_records(folder, split, length, names, fingerprint)
    journal.close()
    result = replace(result, files=manifest.inventory(journal.folder, known))
    journal.folder.rename(places.processed(name))
    sync_folder(places.processed(name).parent)
    manifest.publish(places.manifest(name), result)
    return result


def _counts(split: Split, shards: Sequence[arrow.Shard]) -> SplitCounts:
    rows = sum(shard.rows for shard in shards)
    if not rows:
        raise Refused(f"split {split.name}: the text is shorter than one row; nothing to train on")
    smallest = min(shard.smallest for shard in shards)
    return SplitCounts(split.documents, rows, smallest, max(shard.largest for shard in shards))


def raw_files(work: Work, split: Split) -> list[Path]:
    """The raw files of a split. Raises Refused where there are none."""
    files = split.paths(work.raw)
    if not files:
        raise Refused(f"{work.raw}: nothing fits {', '.join(split.files)}; fetch it first")
    return files


def raw_blocks(work: Work, split: Split) -> list[Block]:
    """The text of a split. Raises Refused where it is not as many documents as are pinned."""
    blocks = plan(raw_files(work, split), split.expression)
    found = sum(block.documents for block in blocks)
    if found != split.documents:
        raise Refused(
            f"{work.raw}: split {split.name} has {found} documents, pinned are {split.documents}; "
            "the raw files are not the pinned ones"
        )
    return blocks


def _pack_split(work: Work, split: Split, journal: "_Journal", progress: Progress) -> Position:
    files = raw_files(work, split)
    blocks = raw_blocks(work, split)
    plan_digest = digest([[block.documents for block in blocks], [path.name for path in files]])
    position = journal.position(split.name, plan_digest)
    if position.done:
        return position
    packing = _SplitPacking(work, split, journal, position)
    return packing.run(blocks, progress)


class _SplitPacking:
    """The packing of one split: the stream so far, the open shard, the journal."""

    def __init__(self, work: Work, split: Split, journal: "_Journal", position: Position) -> None:
        self.work, self.split, self.journal, self.position = (
            work,
            split,
            journal,
            position,
        )
        self.length = work.dataset.sequence_length
        self.folder = journal.folder / split.name
        self.folder.mkdir(exist_ok=True)
        self.writer: arrow.ShardWriter | None = None
        # Blocks that hold tokens not yet in a finished shard: (block, tokens before it).
        self.recent: deque[tuple[int, int]] = deque()
        self.finished_rows = sum(shard.rows for shard in position.shards)

    def run(self, blocks: Sequence[Block], progress: Progress) -> Position:
        """Pack the blocks from the journal's position on; returns the final position."""
        contract = self.work.contract
        bos, eos = int(str(contract["bos"])), int(str(contract["eos"]))
        how = Tokenisation(self.work.tokenizer, eos, self.work.dataset.detokenizer)
        packer = Packer(self.length, bos, eos)
        first, skip = self.position.block, self.position.skip
        documents = sum(block.documents for block in blocks[:first])
        # In tokens of the whole stream: where the first block read here begins.
        at = self.finished_rows * (self.length - 2) - skip
        left = blocks[first:]
        for number, tokens in enumerate(streams(left, how, self.work.processes), first):
            self.recent.append((number, at))
            at += len(tokens)
            self._append(packer.feed(tokens[skip:]))
            skip = 0
            documents += blocks[number].documents
            progress(
                f"{self.work.dataset.key} {self.split.name} documents",
                documents,
                self.split.documents,
            )
        if self.writer is not None:
            self._finish_shard()
        self.position = replace(self.position, done=True)
        self.journal.record(self.split.name, self.position)
        return self.position

    def _append(self, rows: Tokens) -> None:
        limit = arrow.rows_per_shard(self.length)
        while len(rows):
            if self.writer is None:
                name = f"data-{len(self.position.shards):05d}.arrow"
                self.writer = arrow.ShardWriter(self.folder / name, self.length)
            take = limit - self.writer.rows
            self.writer.append(rows[:take])
            rows = rows[take:]
            if self.writer.rows == limit:
                self._finish_shard()

    def _finish_shard(self) -> None:
        assert self.writer is not None
        shard = self.writer.finish()
        self.writer = None
        self.finished_rows += shard.rows
        used = self.finished_rows * (self.length - 2)
        while len(self.recent) > 1 and self.recent[1][1] <= used:
            self.recent.popleft()
        block, before = self.recent[0]
        shards = (*self.position.shards, shard)
        self.position = replace(self.position, shards=shards, block=block, skip=used - before)
        sync_folder(self.folder)
        self.journal.record(self.split.name, self.position)


class _Journal:
    """The positions of a set's splits, kept beside its growing data."""

    def __init__(self, folder: Path, fingerprint: str, positions: dict[str, Position]) -> None:
        self.folder, self.fingerprint, self.positions = folder, fingerprint, positions

    @classmethod
    def opened(cls, folder: Path, fingerprint: str) -> "_Journal":
        """Go on with the folder's journal where it is of this contract; else begin anew."""
        positions = _positions(folder / _JOURNAL, fingerprint)
        if positions is not None:
            return cls(folder, fingerprint, positions)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        return cls(folder, fingerprint, {})

    def position(self, split: str, plan_digest: str) -> Position:
        """Where to go on; from the start where the text is divided otherwise or a shard is gone."""
        found = self.positions.get(split)
        if found is None or found.plan != plan_digest or not self._whole(split, found):
            self.positions[split] = Position(plan_digest)
        return self.positions[split]

    def _whole(self, split: str, position: Position) -> bool:
        paths = [(self.folder / split / shard.name, shard.size) for shard in position.shards]
        return all(path.is_file() and path.stat().st_size == size for path, size in paths)

    def record(self, split: str, position: Position) -> None:
        """Publish a split's new position."""
        self.positions[split] = position
        splits = {name: asdict(value) for name, value in self.positions.items()}
        publish_json(self.folder / _JOURNAL, {"fingerprint": self.fingerprint, "splits": splits})

    def close(self) -> None:
        """Remove the journal: the set is whole."""
        (self.folder / _JOURNAL).unlink()


def _positions(path: Path, fingerprint: str) -> dict[str, Position] | None:
    """What a journal of this contract says; None where it is another's, or none of ours."""
    try:
        record: Any = read_json(path)
        if record["fingerprint"] != fingerprint:
            return None
        return {
            name: Position(**{**value, "shards": tuple(arrow.Shard(**s) for s in value["shards"])})
            for name, value in record["splits"].items()
        }
    except (Refused, LookupError, TypeError, AttributeError):
        return None

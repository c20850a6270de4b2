"""A dataset's raw text: where it lies, which files it is, and that they are the recorded ones."""

from pathlib import Path

from harness.data import downloads
from harness.data.digests import Digests
from harness.data.expected import Expected
from harness.data.pins import Dataset, Split
from harness.data.places import Places, blob
from harness.data.progress import Progress, silent
from harness.errors import Refused


def folder(places: Places, dataset: Dataset) -> Path:
    """Where the text lies: a corpus made here, or a snapshot of the Hub cache."""
    if dataset.kind == "embedded":
        return places.corpus(dataset.key)
    return places.snapshot("dataset", dataset.repo, dataset.conversion or dataset.revision)


def paths(places: Places, dataset: Dataset, split: Split) -> list[Path]:
    """The files of a split, in order; of a fetched one, those of the fetch record.

    Raises Refused where one of these is missing, or lies there without having been fetched.
    """
    found = split.paths(folder(places, dataset))
    record = downloads.read(places.downloads).datasets.get(dataset.key)
    if dataset.kind == "embedded" or record is None:
        return found
    fetched = {places.data / name for name in record.cache_files.get(split.name, ())}
    if missing := sorted(fetched.difference(found)):
        raise Refused(f"{missing[0]}: is missing; run 'harness fetch {dataset.key}'")
    if others := sorted(set(found).difference(fetched)):
        raise Refused(f"{others[0]}: was not fetched with the others; remove it")
    return found


def wanted(places: Places, dataset: Dataset) -> dict[Path, str]:
    """The SHA-256 that each file has by its pin, else by the fetch record.

    Raises Refused where a file is missing or in neither, or is a link that leads out of its
    repository.
    """
    text = folder(places, dataset)
    expected = Expected.read(places, text, dataset.files)
    repository = text.parents[1] if dataset.kind == "hub" else text
    every = {path for split in dataset.splits for path in paths(places, dataset, split)}
    return {
        blob(path, repository): expected.sha256(path.relative_to(text).as_posix())
        for path in sorted(every)
    }


def check(
    places: Places, dataset: Dataset, digests: Digests, progress: Progress = silent
) -> dict[Path, str]:
    """Compare every byte with the pins and the fetch record; the files' digests.

    Raises Refused at the first that differs, and as `wanted` does.
    """
    expected = wanted(places, dataset)
    for path, sha256 in digests.of(expected, progress).items():
        if sha256 != expected[path]:
            raise Refused(
                f"{path}: sha256 {sha256}, wanted is {expected[path]}; remove it and fetch "
                f"{dataset.key} again"
            )
    return expected

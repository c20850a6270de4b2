"""What a launch needs of the data: is it there, and where; and making the embedded sets."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.canonical import digest
from harness.data import bridge, manifest, pins, raw
from harness.data.bridge import Prepared
from harness.data.digests import Digests
from harness.data.expected import Expected
from harness.data.manifest import Manifest
from harness.data.pins import Dataset, Model
from harness.data.places import Places, blob, hub_folder
from harness.data.progress import Progress
from harness.errors import Refused
from harness.files import open_plain
from harness.project import Project


@dataclass(frozen=True)
class DataInputs:
    """A launch's data: a processed set's manifest, its training cache, its tokenizer."""

    manifest: Manifest
    manifest_sha256: str
    training_cache: Path
    tokenizer: Path
    tokenizer_name: str
    tokenizer_revision: str
    tokenizer_sha256: str
    hub: Path


def command(dataset: Dataset) -> str:
    """What the user runs to have the dataset ready."""
    return f"harness prepare {dataset.key}"


def _pinned(project: Project, key: str) -> tuple[Places, Dataset, Model]:
    known = pins.load(project.source)
    dataset = known.dataset(key)
    return Places.of(project), dataset, known.model(dataset.tokenizer)


def prepared(project: Project, dataset_key: str) -> Prepared:
    """A processed set with what it was made of. Raises Refused where it is not ready."""
    places, dataset, model = _pinned(project, dataset_key)
    found = _manifest(places, dataset, model)
    if found is None:
        raise Refused(f"processed set {dataset.processed}: not ready; run '{command(dataset)}'")
    return Prepared(places, dataset, model, found)


def is_embedded(project: Project, dataset_key: str) -> bool:
    """Whether the dataset is made here, not fetched."""
    return pins.load(project.source).dataset(dataset_key).kind == "embedded"


def training_cache(project: Project, dataset_key: str, layout: str) -> Path:
    """Where a dataset's training cache in a layout lies, there or not yet."""
    dataset = pins.load(project.source).dataset(dataset_key)
    return Places.of(project).training(layout, dataset.processed)


def visible(project: Project, dataset_key: str) -> tuple[tuple[Path, str], ...]:
    """What of the Hub cache a run may see: the dataset's models, and no other repository."""
    known = pins.load(project.source)
    if dataset_key not in known.datasets:
        return ()
    models = known.dataset(dataset_key).models
    return tuple(pair for name in models for pair in shown(project, name))


def shown(project: Project, key: str) -> tuple[tuple[Path, str], ...]:
    """What shows a pinned model: parts of the Hub cache, and their places below an HF_HOME.

    The pinned snapshot, the references, and those blobs that the pinned files are links to;
    nothing of another revision.
    """
    model = pins.load(project.source).model(key)
    hub, folder = Places.of(project).hub, hub_folder("model", model.repo)
    snapshot = hub / folder / "snapshots" / model.revision
    links = [snapshot / name for name in (*model.files, *model.weights)]
    blobs = {blob(path, hub / folder).name for path in links if path.is_symlink()}
    parts = ["refs", f"snapshots/{model.revision}", *(f"blobs/{name}" for name in sorted(blobs))]
    return tuple((hub / folder / part, f"hub/{folder}/{part}") for part in parts)


def missing(project: Project, dataset_key: str, layout: str) -> list[str]:
    """What of a launch's data is not there, one line each; looks at names and sizes only."""
    if dataset_key not in pins.load(project.source).datasets:
        return [f"dataset {dataset_key}: its text is not public; pin your own under this key"]
    places, dataset, model = _pinned(project, dataset_key)
    lines = []
    if _snapshot_gaps(places, model):
        lines.append(f"tokenizer {model.repo}@{model.revision[:8]}")
    found = _manifest(places, dataset, model)
    if found is None:
        lines.append(f"processed set {dataset.processed}")
    if found is None or bridge.current(Prepared(places, dataset, model, found), layout) is None:
        lines.append(f"training cache {layout}/{dataset.processed}")
    return [f"{line}: not ready; run '{command(dataset)}'" for line in lines]


def inputs(project: Project, dataset_key: str, layout: str) -> DataInputs:
    """A launch's data, every byte checked: against the manifest, the pins, the fetch record.

    Digests are remembered by what `stat` says of a file, unless the project distrusts them.
    Raises Refused with one line where something is missing or not as recorded.
    """
    gaps = missing(project, dataset_key, layout)
    if gaps:
        raise Refused(gaps[0])
    places, dataset, model = _pinned(project, dataset_key)
    found = manifest.read(places.manifest(dataset.processed))
    digests = Digests.of_project(project)
    bridge.check(Prepared(places, dataset, model, found), layout, digests)
    known = pins.load(project.source)
    _check_references(places, dataset, known)
    for other in map(known.model, dataset.models):
        if other.key != model.key:
            _check_snapshot(places, other, digests)
    snapshot = places.snapshot("model", model.repo, model.revision)
    return DataInputs(
        manifest=found,
        manifest_sha256=found.sha256(),
        training_cache=places.training(layout, dataset.processed),
        tokenizer=snapshot,
        tokenizer_name=model.repo,
        tokenizer_revision=model.revision,
        tokenizer_sha256=_tokenizer_sha256(places, model, digests),
        hub=places.hub,
    )


def _manifest(places: Places, dataset: Dataset, model: Model) -> Manifest | None:
    path, folder = (
        places.manifest(dataset.processed),
        places.processed(dataset.processed),
    )
    if not (path.is_file() and folder.is_dir()):
        return None
    found = manifest.read(path)
    if dict(found.contract) != manifest.contract(dataset, model):
        return None
    return None if manifest.differences(found, folder) else found


def _snapshot_gaps(places: Places, model: Model) -> list[str]:
    folder = places.snapshot("model", model.repo, model.revision)
    return [name for name in model.files if not (folder / name).is_file()]


def _check_references(places: Places, dataset: Dataset, known: pins.Pins) -> None:
    """A library that loads by name takes what `refs/main` says: that must be the pin."""
    for model in map(known.model, dataset.models):
        folder = places.hub / hub_folder("model", model.repo) / "refs"
        for path in folder.rglob("*"):
            with open_plain(path) as file:
                told = file.read(100)
            if path.name != "main" or told != model.revision.encode():
                raise Refused(f"{path}: is not the pinned {model.revision}; remove it")


def _tokenizer_sha256(places: Places, model: Model, digests: Digests) -> str:
    """The digest over a tokenizer's files, each checked against its pin and the fetch record."""
    _check_names(places, model)
    return digest({name: sha256 for name, (_, sha256) in _checked(places, model, digests).items()})


def _check_snapshot(places: Places, model: Model, digests: Digests) -> None:
    """The same checks of another model that a run sees: of what is there, weights or none."""
    snapshot = places.snapshot("model", model.repo, model.revision)
    there = [name for name in (*model.files, *model.weights) if (snapshot / name).exists()]
    _check_names(places, model)
    if there:
        _checked(places, model, digests, there)


def _check_names(places: Places, model: Model) -> None:
    """A library reads what it finds: there may be nothing but the pinned files."""
    snapshot = places.snapshot("model", model.repo, model.revision)
    pinned_names = {*model.files, *model.weights}
    for path in sorted(snapshot.rglob("*")):
        name = path.relative_to(snapshot).as_posix()
        if name not in pinned_names and not path.is_dir():
            raise Refused(f"{path}: no pinned file of {model.repo}; remove it")


def _checked(
    places: Places, model: Model, digests: Digests, names: Iterable[str] | None = None
) -> dict[str, tuple[Path, str]]:
    """Where files of a snapshot lie (the tokenizer's, or those named), and their digests.

    Raises Refused where one has not the bytes of its pin, or of the fetch record.
    """
    snapshot = places.snapshot("model", model.repo, model.revision)
    expected = Expected.read(places, snapshot, {**model.files, **model.weights})
    blobs = {name: blob(snapshot / name, snapshot.parents[1]) for name in names or model.files}
    got = digests.of(blobs.values())
    for name, path in blobs.items():
        if (wanted := expected.sha256(name)) != got[path]:
            raise Refused(
                f"{snapshot / name}: sha256 {got[path]}, on record is {wanted}; remove "
                f"{snapshot.parents[1]} and fetch {model.repo} again"
            )
    return {name: (path, got[path]) for name, path in blobs.items()}


def model_files(project: Project, key: str, names: Iterable[str]) -> dict[str, tuple[Path, str]]:
    """Where the named files of a pinned model lie on this machine, weights too; their digests.

    Raises Refused where one was not fetched, or has other bytes than pinned and fetched.
    """
    places, model = Places.of(project), pins.load(project.source).model(key)
    snapshot = places.snapshot("model", model.repo, model.revision)
    names = list(names)
    for name in names:
        if not (snapshot / name).is_file():
            raise Refused(f"{model.repo}: no {name} in the cache; run 'harness fetch {key}'")
    return _checked(places, model, Digests(places.digests), names)


def prepare_dataset(
    project: Project, dataset_key: str, progress: Progress, processes: int | None = None
) -> Manifest:
    """Make a dataset ready for training: processed set and training caches.

    An embedded one is generated first, with its tokenizer; one of the Hub must have been
    fetched. What is already right is left as it is. Raises Refused where another process is at
    it, or raw files are missing.
    """
    from harness.data import stores
    from harness.data.locking import only_one
    from harness.data.prepare import Work, prepare
    from harness.data.tokenise import default_processes

    places, dataset, model = _pinned(project, dataset_key)
    make = stores.prepare if dataset.packing == pins.STORES else prepare
    processes = processes or default_processes()
    digests = Digests.of_project(project)
    with only_one(places.lock(dataset.processed), f"preparing {dataset.key}"):
        if dataset.kind == "embedded":
            _generate(project, dataset, model)
            progress(f"{dataset.key} corpus and tokenizer", 1, 1)
        elif _snapshot_gaps(places, model) or not raw.folder(places, dataset).is_dir():
            raise Refused(f"dataset {dataset.key}: not fetched; run 'harness fetch {dataset.key}'")
        text = raw.check(places, dataset, digests, progress)
        told = digest([sorted(text.values()), _tokenizer_sha256(places, model, digests)])
        snapshot = places.snapshot("model", model.repo, model.revision)
        folder = raw.folder(places, dataset)
        work = Work(dataset, model, folder, snapshot, places, processes, told)
        found = make(work, progress)
        for layout in bridge.layouts(dataset):
            bridge.build(Prepared(places, dataset, model, found), layout, digests)
    return found


def _generate(project: Project, dataset: Dataset, model: Model) -> None:
    """Write an embedded corpus and tokenizer, unless they are there.

    After whoever does that now: datasets share corpora and tokenizers.
    """
    from harness.data import embedded
    from harness.data.locking import turn

    places = Places.of(project)
    places.data.mkdir(parents=True, exist_ok=True)
    with turn(places.data):
        embedded.write_corpus(places, dataset)
        embedded.write_tokenizer(places, model, _text_of(project, model))


def _text_of(project: Project, model: Model) -> Path:
    """The corpus an embedded tokenizer is made from, written unless it is there."""
    from harness.data import embedded

    known = pins.load(project.source)
    return embedded.write_corpus(Places.of(project), known.dataset(str(model.corpus)))


def prepare_embedded(project: Project, dataset_key: str, progress: Progress) -> None:
    """Make an embedded dataset ready from nothing. Raises Refused for one of the Hub."""
    _, dataset, _ = _pinned(project, dataset_key)
    if dataset.kind != "embedded":
        raise Refused(f"dataset {dataset_key}: not embedded; fetch it, then prepare it")
    prepare_dataset(project, dataset_key, progress)

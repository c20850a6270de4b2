"""A Workflow Run RO-Crate of a run: its files, and how they came about, for catalogues.

Profiles: Workflow Run Crate 0.5 and Process Run Crate 0.5 on RO-Crate 1.1
(https://w3id.org/ro/wfrun/workflow/0.5).
"""

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import folder
from harness.errors import Refused
from harness.export.statement import materials, records
from harness.project import Project

if TYPE_CHECKING:
    from rocrate.rocrate import ROCrate

PROFILES = (
    ("https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate", "0.5"),
    ("https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate", "0.5"),
    ("https://w3id.org/workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate", "1.0"),
)
MEDIA = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".yaml": "application/yaml",
    ".log": "text/plain",
    ".md": "text/markdown",
}
README = "README.md"
_OWN = "ro-crate-"  # how the names begin that the format gives a meaning at the top of a crate
LANGUAGE = {
    "name": "diffusion-harness recipe",
    "alternateName": "recipe",
    "identifier": {"@id": "https://hydra.cc"},
    "url": {"@id": "https://hydra.cc"},
}
UNSTATED = "not stated by whoever exported it"


def write(project: Project, run: Path, target: Path, license_: str | None) -> None:
    """Write the crate of a completed run to `target`: a folder, or one file where it ends .zip.

    Raises Refused where the run is not complete and whole, has a file of a crate's own name, or
    `target` is there already.
    """
    if target.exists() or target.is_symlink():
        raise Refused(f"{target}: is there already; choose another place")
    crate = describe(project, run, license_)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".crate-") as scratch:
        part = Path(scratch) / target.name
        (crate.write_zip if target.suffix == ".zip" else crate.write)(part)
        part.rename(target)


def describe(project: Project, run: Path, license_: str | None) -> "ROCrate":
    """The crate of a completed run, its files not yet copied."""
    from rocrate.model.computerlanguage import ComputerLanguage
    from rocrate.model.contextentity import ContextEntity
    from rocrate.rocrate import ROCrate

    identity, completed, provenance = records(run)
    _check_names(run, completed)
    recipe = identity["recipe"]
    crate = ROCrate(version="1.1")
    crate.name = f"{recipe['model']} on {recipe['dataset']}, {recipe['profile']}: {run.name}"
    crate.description = (
        f"A training of {recipe['model']} on {recipe['dataset']} with profile {recipe['profile']}; "
        f"launch identity {completed['identity_sha256']}."
    )
    crate.datePublished = _time(completed["completed"])
    crate.add_file(
        io.StringIO(f"# {crate.name}\n\n{crate.description}\n"),
        README,
        properties={
            "name": README,
            "about": {"@id": crate.root_dataset.id},
            "encodingFormat": MEDIA[".md"],
        },
    )

    def add(id_: str, **properties: Any) -> ContextEntity:
        made: ContextEntity = crate.add(ContextEntity(crate, id_, properties=properties))
        return made

    crate.license = UNSTATED
    if license_ is not None:
        crate.license = add(license_, **{"@type": "CreativeWork", "name": license_})
    crate.root_dataset["conformsTo"] = [
        add(uri, **{"@type": "CreativeWork", "name": name, "version": version})
        for uri, name, version in PROFILES
    ]
    files = {
        entry["path"]: _file(crate, run, entry)
        for entry in completed["files"]
        if entry["path"] not in (folder.LOCK, folder.RECIPE)
    }
    completion = crate.add_file(
        run / folder.COMPLETED, folder.COMPLETED, properties={"encodingFormat": MEDIA[".json"]}
    )
    workflow = crate.add_workflow(
        run / folder.RECIPE,
        folder.RECIPE,
        properties={
            "name": f"recipe of {recipe['model']} on {recipe['dataset']}",
            "version": identity["harness"]["version"],
            "url": LANGUAGE["url"],
            "encodingFormat": MEDIA[".json"],
        },
        main=True,
        lang=crate.add(ComputerLanguage(crate, "#recipe-language", properties=LANGUAGE)),
    )
    given = [folder.ARGV, folder.CONFIG, folder.IDENTITY]
    inputs = [files[name] for name in given] + [
        add(f"#material-{number}", **_material(found))
        for number, found in enumerate(materials(project, identity, provenance))
    ]
    results = [file for name, file in files.items() if name not in given]
    action = add(
        f"#launch-{completed['identity_sha256']}",
        **{
            "@type": "CreateAction",
            "name": f"training of {run.name}",
            "description": f"{len(provenance['attempts'])} attempt(s), the last one to its end",
            "startTime": _time(provenance["attempts"][0]["started"]),
            "endTime": _time(completed["completed"]),
            "actionStatus": "http://schema.org/CompletedActionStatus",
        },
    )
    action["instrument"] = workflow
    action["object"] = inputs
    action["result"] = [*results, completion]
    crate.root_dataset["mentions"] = action
    return crate


def _check_names(run: Path, completed: dict[str, Any]) -> None:
    """Raises Refused where a file of the run would take the place of the crate's own."""
    for entry in completed["files"]:
        first = Path(entry["path"]).parts[0].casefold()  # some file systems know one case only
        if first == README.casefold() or first.startswith(_OWN):
            raise Refused(f"{run / entry['path']}: is named as a file of the crate's own")


def _time(text: str) -> str:
    """A time of ours with its offset in figures, as the profiles' validator wants it."""
    return text.removesuffix("Z") + "+00:00"


def _file(crate: "ROCrate", run: Path, entry: dict[str, Any]) -> Any:
    properties = {
        "name": entry["path"],
        "contentSize": str(entry["size"]),
        "sha256": entry["sha256"],
    }
    media = MEDIA.get(Path(entry["path"]).suffix, "application/octet-stream")
    properties["encodingFormat"] = media
    return crate.add_file(run / entry["path"], entry["path"], properties=properties)


def _material(found: dict[str, Any]) -> dict[str, Any]:
    """A pin as a contextual entity: its name and digests."""
    digests = dict(_properties(found.get("digest", {})))
    made = {"@type": "CreativeWork", "name": found["name"], **digests}
    return made | ({"url": found["uri"]} if found.get("uri", "").startswith("https") else {})


def _properties(digests: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in digests.items():
        if name == "sha256":
            yield name, value
        else:
            yield "identifier", f"{name}:{value}"

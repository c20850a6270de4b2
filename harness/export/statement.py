"""An in-toto Statement of a run: its files are the subjects, all pins the materials.

Formats: in-toto Attestation Framework, Statement v1; SLSA v1.0, "Provenance"
(https://slsa.dev/spec/v1.0/provenance).
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import folder, lock, nix, places, sources
from harness.canonical import digest
from harness.data import manifest
from harness.errors import HarnessError, Refused
from harness.files import sha256_file
from harness.identity import each
from harness.json_files import json_bytes
from harness.project import Project
from harness.schemas import read_record

PREDICATE = "https://slsa.dev/provenance/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_NAME = "urn:diffusion-harness"
# What a completed run always has; a record made up need not list them.
_NEEDED = (folder.RECIPE, folder.ARGV, folder.CONFIG, folder.MODEL)

Descriptor = dict[str, Any]


def statement(project: Project, run: Path) -> bytes:
    """The Statement of a completed run, as JSON.

    Raises Refused where the run is not complete, or its files are not as recorded: nothing is
    said of a run that does not hold itself.
    """
    identity, completed, provenance = records(run)
    document = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": list(subjects(run, completed)),
        "predicateType": PREDICATE,
        "predicate": _provenance(project, identity, completed, provenance),
    }
    data = json_bytes(document)
    parsed(data, str(run))
    return data


def records(run: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Identity, completion and facts of a run that is complete and whole; Refused otherwise."""
    identity = read_record(run / folder.IDENTITY, "identity")
    completed = folder.completed(run)
    provenance = read_record(run / folder.PROVENANCE, "provenance")
    faults = folder.altered(run, completed)
    if completed["identity_sha256"] != digest(identity):
        faults.append(f"{folder.IDENTITY} is another launch's")
    files: Any = completed["files"]
    listed = {entry["path"] for entry in files}
    faults += [f"{name} is missing" for name in _NEEDED if name not in listed]
    if faults:
        raise Refused(f"{run}: {faults[0]}; 'harness audit' tells all of it")
    return identity, completed, provenance


def subjects(run: Path, completed: dict[str, Any]) -> Iterator[Descriptor]:
    """Every file of the run by its SHA-256, and the tensors by their own digests."""
    for entry in completed["files"]:
        if entry["path"] != folder.LOCK:
            yield {"name": entry["path"], "digest": {"sha256": entry["sha256"]}}
    yield {"name": folder.COMPLETED, "digest": {"sha256": sha256_file(run / folder.COMPLETED)}}
    for name, group in completed["checkpoint"]["tensors"].items():
        yield {"name": f"{folder.MODEL}#{name}", "digest": {"tensors-sha256": group["digest"]}}


def _provenance(
    project: Project,
    identity: dict[str, Any],
    completed: dict[str, Any],
    provenance: dict[str, Any],
) -> dict[str, Any]:
    recipe = identity["recipe"]
    chosen = ("seed", "resume", "student_init", "devices", "nodes", "per_device_batch")
    attempts = provenance["attempts"]
    return {
        "buildDefinition": {
            "buildType": f"{_NAME}:launch:1",
            "externalParameters": {
                **{name: recipe[name] for name in ("model", "dataset", "profile")},
                **{name: identity[name] for name in chosen},
            },
            "internalParameters": {
                "identity": identity,
                "identity_sha256": completed["identity_sha256"],
            },
            "resolvedDependencies": list(materials(project, identity, provenance)),
        },
        "runDetails": {
            "builder": {
                "id": f"{_NAME}:{identity['harness']['version']}",
                "version": {"harness": identity["harness"]["version"]},
                "builderDependencies": [
                    {
                        "name": "flake.lock",
                        "digest": {"sha256": identity["harness"]["flake_lock_sha256"]},
                    }
                ],
            },
            "metadata": {
                "invocationId": completed["identity_sha256"],
                "startedOn": attempts[0]["started"],
                "finishedOn": completed["completed"],
            },
        },
    }


def materials(
    project: Project, identity: dict[str, Any], provenance: dict[str, Any]
) -> Iterator[Descriptor]:
    """Every pin of a launch: code, environment wheel by wheel, base, data, tokenizer, teacher."""
    source, environment = identity["source"], identity["environment"]
    yield {"name": f"source {source['name']}", **_source(project, source)}
    yield {"name": "adapters", "digest": _nar(identity["adapters"])}
    lock = {"sha256": environment["lock_sha256"]}
    yield {"name": f"environment lock {environment['name']}", "digest": lock}
    yield from _wheels(project, environment)
    base = environment["base"]
    yield {
        "name": f"base {base['kind']}",
        "uri": f"nix-store:{base['path']}",
        "annotations": {"kind": base["kind"]},
    }
    data, tokenizer = identity["data"], identity["tokenizer"]
    yield {"name": f"data {data['key']}", "digest": {"sha256": data["manifest_sha256"]}}
    yield from _data_files(project, provenance, data["manifest_sha256"])
    yield {
        "name": f"tokenizer {tokenizer['name']}@{tokenizer['revision']}",
        "digest": {"sha256": tokenizer["sha256"]},
    }
    yield {"name": folder.CONFIG, "digest": {"sha256": identity["config_sha256"]}}
    for teacher in each(identity["teacher"]):
        name = f"teacher {teacher['family']}" if "family" in teacher else "teacher"
        yield {"name": name, "digest": {"sha256": teacher["sha256"]}}
    if identity["transformation"] is not None:
        made = identity["transformation"]
        code = {"sha256": made["code_sha256"]}
        yield {"name": f"transformation {made['name']}", "digest": code}
        yield {"name": "adapted teacher", "digest": {"sha256": made["output_sha256"]}}


def _source(project: Project, source: dict[str, Any]) -> Descriptor:
    found: Descriptor = {"digest": _nar(source["tree"])}
    if source["commit"] is not None:
        found["digest"]["gitCommit"] = source["commit"]
        url = sources.pin(project, source["name"]).url
        found["uri"] = f"git+{url}@{source['commit']}"
    return found


def _nar(text: str) -> dict[str, str]:
    """A Nix archive digest as in-toto has digests: by algorithm, in hex."""
    return {"nar-sha256": base64.b64decode(text.removeprefix("sha256-")).hex()}


def _wheels(project: Project, environment: dict[str, Any]) -> Iterator[Descriptor]:
    """Each file of the lock; none where today's lock is not the recorded one."""
    if nix.lock_sha256(project, environment["name"]) != environment["lock_sha256"]:
        return
    envs = project.source / "envs"
    locks = dict.fromkeys((*lock.chain(envs, "build"), *lock.chain(envs, environment["name"])))
    for one in locks:
        for wheel in one.wheels:
            yield {"name": wheel.file, "digest": {"sha256": wheel.sha256}}


def _data_files(
    project: Project, provenance: dict[str, Any], manifest_sha256: str
) -> Iterator[Descriptor]:
    """Each file of the processed set, where its manifest is on this machine."""
    mount = provenance["paths"]["mounts"].get(places.DATA)
    if mount is None:
        return
    path = project.data / "manifests" / f"{Path(mount).name}.json"
    try:
        found = manifest.read(path)
    except HarnessError:
        return
    if found.sha256() == manifest_sha256:
        for file in found.files:
            yield {"name": f"data/{file.path}", "digest": {"sha256": file.sha256}}


def parsed(data: bytes, where: str) -> dict[str, Any]:
    """The Statement in `data`, read by the format's own library too.

    Raises Refused where it is none, or its predicate is no SLSA provenance.
    """
    from google.protobuf.json_format import ParseDict, ParseError
    from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
    from in_toto_attestation.v1.statement import Statement

    try:
        document: dict[str, Any] = json.loads(data)
        made = Statement([], "", {})
        ParseDict({name.removeprefix("_"): part for name, part in document.items()}, made.pb)
        made.validate()
        if document["predicateType"] != PREDICATE:
            raise ValueError(f"its predicate is {document['predicateType']!r}")
        ParseDict(document["predicate"], Provenance())
    except (ValueError, KeyError, AttributeError, ParseError, RecursionError) as error:
        raise Refused(f"{where}: no in-toto Statement of a run ({error})") from error
    return document

"""What a run was made from, looked up on this machine: recipe, code, environment, data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import __version__, nix, records, sources
from harness.audit.recorded import Recorded
from harness.audit.verdicts import Claim, all_of, differs, equal, unchecked
from harness.errors import HarnessError, Refused
from harness.files import sha256_file
from harness.identity import each
from harness.plan import Choices, plan
from harness.recipes import Recipe


def tool(run: Recorded) -> Iterator[Claim]:
    """The harness of the run is this one."""
    recorded = run.identity["harness"]
    lock = run.project.source / "flake.lock"
    yield equal("harness version", recorded["version"], __version__)
    yield equal("flake.lock", recorded["flake_lock_sha256"], sha256_file(lock))


def recipe(run: Recorded) -> Iterator[Claim]:
    """The recipe and its argument list come out the same today."""
    # A teacher is bound at one place in the sandbox, so any path gives the same argument list.
    anywhere = tuple(run.project.root / "teacher.ckpt" for _ in each(run.identity["teacher"]))
    try:
        chosen = recorded_choices(run.identity, anywhere)
        today = plan(run.project, chosen, run.machine.catalogue())
    except Refused as error:
        yield differs("recipe of today", f"this harness refuses the launch: {error}")
        return
    yield equal("recipe of today", run.identity["recipe"], today.recipe.record())
    yield equal("argument list of today", run.identity["argv"], list(today.argv))


def recorded_choices(identity: dict[str, Any], teachers: tuple[Path, ...]) -> Choices:
    """The choices a recorded launch was made with."""
    recipe = identity["recipe"]
    weights = [teacher["weights"] for teacher in each(identity["teacher"])]
    return Choices(
        model=recipe["model"],
        dataset=recipe["dataset"],
        profile=recipe["profile"],
        devices=identity["devices"],
        nodes=identity["nodes"],
        per_device_batch=identity["per_device_batch"],
        seed=identity["seed"],
        resume=identity["resume"],
        teachers=teachers,
        teacher_weights=weights[0] if weights else None,
        student_init=identity["student_init"],
        mirrors=_mirrors(identity["source"]),
    )


def _mirrors(source: dict[str, Any]) -> dict[str, sources.Mirror]:
    """The recorded commit, for a launch on another than the pinned one."""
    return {source["name"]: sources.Mirror(None, source["commit"])} if "pinned" in source else {}


def code(run: Recorded) -> Iterator[Claim]:
    """The trainer's source is the pinned commit's tree, the adapters are these."""
    source = run.identity["source"]
    commit = sources.commit(run.project, source["name"])
    here = sources.look(run.project, source["name"], _mirrors(source))
    if "pinned" in source:
        yield equal("source pin", source["pinned"], commit, source["name"])
        yield unchecked("source commit", here.label)
    else:
        yield equal("source commit", source["commit"], commit, source["name"])
    tree = run.machine.tree(here)
    if tree is None:
        yield unchecked("source tree", f"{source['name']} is not on this machine")
    else:
        yield equal("source tree", source["tree"], tree, source["name"])
    used = run.identity["recipe"].get("adapters", [])
    try:
        yield equal("adapters", run.identity["adapters"], run.machine.adapters(used), "adapters")
    except Refused as problem:
        yield unchecked("adapters", str(problem))


def environment(run: Recorded) -> Iterator[Claim]:
    """The environment's lock is this one; where it is built, its store paths are whole."""
    recorded = run.identity["environment"]
    name = recorded["name"]
    yield equal("environment lock", recorded["lock_sha256"], nix.lock_sha256(run.project, name))
    try:
        here = run.machine.environment(name)
        base = {"kind": here.base.kind, "path": here.base.path.name}
        if base != recorded["base"]:
            wanted = recorded["base"]["path"]
            yield unchecked("environment", f"this machine's base is {base['path']}, not {wanted}")
            return
        faults = [f"{path}: not as Nix registered it" for path in run.machine.altered(here)]
    except HarnessError as error:
        yield unchecked("environment", str(error))
        return
    yield all_of("environment", faults, f"{len(here.closure)} store paths")


def data(run: Recorded) -> Iterator[Claim]:
    """The processed set is the one trained on, byte for byte and row for row; so its tokenizer."""
    recorded = run.identity["data"]
    layout = _today(run).data_layout
    lacking = run.machine.lacking(recorded["key"], layout)
    if lacking:
        for name in ("data", "data rows", "tokenizer"):
            yield unchecked(name, lacking[0])
        return
    here = run.machine.data(recorded["key"], layout)
    yield equal("data", recorded["manifest_sha256"], here.manifest_sha256, "processed manifest")
    verdict = run.machine.rows(recorded["key"])
    yield all_of("data rows", verdict.problems, f"{verdict.rows} rows")
    tokenizer = {
        "name": here.tokenizer_name,
        "revision": here.tokenizer_revision,
        "sha256": here.tokenizer_sha256,
    }
    yield equal("tokenizer", run.identity["tokenizer"], tokenizer)


def recorded(run: Recorded) -> Iterator[Claim]:
    """Where the repository records this launch on this base, the tensors are those."""
    known = records.expected(run.project, run.identity)
    if known is None:
        return
    groups = run.completed["checkpoint"]["tensors"]
    found = {name: group["digest"] for name, group in groups.items()}
    yield equal("recorded result", known.tensors, found, str(records.FILE))


def _today(run: Recorded) -> Recipe:
    recorded = run.identity["recipe"]
    catalogue = run.machine.catalogue()
    return catalogue.recipe(recorded["model"], recorded["dataset"], recorded["profile"])

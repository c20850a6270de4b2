"""Whether an environment has all that an upstream's code imports: tried, in the sandbox."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness import adapters, mirrors, nix, places, sandbox
from harness.compose import inside_box
from harness.environments import users
from harness.errors import HarnessError, Refused
from harness.project import Project
from harness.recipes import load
from harness.sandbox import Mount
from harness.sources import Mirror


@dataclass(frozen=True)
class Found:
    """One thing that an upstream imports, where it is imported, and what became of it.

    `provider` is `environment` or `adapters`; `error` is empty where the import succeeded.
    """

    module: str
    name: str
    places: tuple[str, ...]
    optional: bool
    provider: str
    error: str

    @property
    def failed(self) -> bool:
        """Whether it is missing, and the code does not go on without it."""
        return bool(self.error) and not self.optional


def check(
    project: Project,
    environment: str,
    where: Mapping[str, Mirror],
    report: Callable[[str], None],
) -> dict[str, tuple[Found, ...]]:
    """Import all that the environment's upstreams import; by source.

    The environment is built and the sources are fetched where they are not there. Raises Refused
    where no upstream uses it, HarnessError where one cannot be read.
    """
    nix.lock_sha256(project, environment)  # refused before anything is fetched
    names = users(project, environment)
    if not names:
        raise Refused(f"environment {environment}: no upstream's code runs in it")
    trees = [mirrors.realise(project, name, where, report) for name in names]
    report(f"environment {environment}")
    built = nix.realise(project, environment)
    found = {}
    for tree in trees:
        entry = load(project.source).tables["sources"][tree.name]
        beside = adapters.mounts(project, entry["adapters"])
        box = inside_box(project, built, (Mount(tree.path, places.SOURCE), *beside), tree.name)
        # Some make a folder there at once; a training has a cache of its own, read-only.
        box = replace(box, variables={**box.variables, "HF_HOME": f"{places.WORK}/huggingface"})
        request = {"root": places.SOURCE, "entrypoint": entry["entrypoint"]}
        report(f"importing what {tree.label} imports")
        command = [places.PYTHON, f"{places.INSIDE}/imports.py"]
        done = sandbox.run(box, command, input=json.dumps(request).encode())
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise HarnessError(f"{tree.name}: its imports cannot be tried: {lines[-1]}")
        found[tree.name] = tuple(map(_found, json.loads(done.stdout)))
    return found


def _found(entry: dict[str, Any]) -> Found:
    file = entry.pop("file")
    provider = "adapters" if file.startswith(f"{places.ADAPTERS}/") else "environment"
    return Found(**{**entry, "places": tuple(entry["places"])}, provider=provider)

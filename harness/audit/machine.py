"""What this machine holds that runs can be checked against, each thing looked up once."""

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from harness import adapters, nix, sandbox
from harness.data import pins, ready
from harness.data.places import Places
from harness.data.ready import DataInputs
from harness.data.verify import Verdict, verify
from harness.errors import HarnessError
from harness.identity import tree_digest
from harness.nix import Environment
from harness.project import Project
from harness.recipes import Catalogue, load
from harness.sources import Source

T = TypeVar("T")
# Any environment can read a checkpoint; this one is small and built by the first smoke run.
READER = "smoke"


class Machine:
    """Sources, environments and data as found here; audits in several threads share one."""

    def __init__(self, project: Project) -> None:
        """Look at nothing yet."""
        self.project = project
        self._lock = threading.Lock()
        self._found: dict[Hashable, Future[Any]] = {}

    def _once(self, key: Hashable, look: Callable[[], T]) -> T:
        """What `look` returns or raises, asked once a key; others wait for the first."""
        with self._lock:
            known = self._found.get(key)
            mine = known is None
            future: Future[T] = known or Future()
            self._found[key] = future
        if mine:
            try:
                future.set_result(look())
            except BaseException as error:
                future.set_exception(error)
        return future.result()

    def catalogue(self) -> Catalogue:
        """Today's recipes."""
        return self._once("recipes", lambda: load(self.project.source))

    def tree(self, source: Source) -> str | None:
        """The digest of a source's tree; None where it is not on this machine."""
        if source.missing:
            return None
        key = (source.path, source.name)
        return self._once(key, lambda: tree_digest(*key))

    def adapters(self, names: Sequence[str]) -> str:
        """The digest of the adapters of these names. Raises Refused where one is not here."""
        key = ("adapters", *names)
        return self._once(key, lambda: adapters.digest(self.project, names))

    def environment(self, name: str) -> Environment:
        """A built environment. Raises HarnessError where it is not built here."""

        def look() -> Environment:
            here = nix.realised(self.project, name)
            if here is None:
                raise HarnessError(f"environment {name} is not built on this machine")
            return here

        return self._once(("environment", name), look)

    def reader(self, preferred: str = READER) -> Environment:
        """An environment to read tensors in: the preferred one, or another that is built here.

        Raises HarnessError where there is none, or no sandbox to read in.
        """
        if sandbox.version() is None:
            raise HarnessError("bubblewrap is not installed")
        try:
            return self.environment(preferred)
        except HarnessError:
            return self.environment(READER)

    def altered(self, environment: Environment) -> list[Path]:
        """The store paths of an environment that no longer have the bytes Nix registered."""
        return [
            path
            for path in environment.closure
            if not self._once(("store", path), lambda path=path: nix.verify_path(path))  # type: ignore[misc]
        ]

    def lacking(self, key: str, layout: str) -> list[str]:
        """What of a dataset is not ready on this machine."""
        return self._once(
            ("lacking", key, layout), lambda: ready.missing(self.project, key, layout)
        )

    def data(self, key: str, layout: str) -> DataInputs:
        """A dataset that is ready, its small records and its tokenizer checked."""
        return self._once(("data", key, layout), lambda: ready.inputs(self.project, key, layout))

    def rows(self, key: str) -> Verdict:
        """A processed set read whole, every byte and row."""
        name = pins.load(self.project.source).dataset(key).processed
        places = Places.of(self.project)
        return self._once(("rows", name), lambda: verify(places, name, lambda *_: None))

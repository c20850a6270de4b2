"""How the nodes of one job find each other, by small files in a folder that all of them see.

Each node but the first says that it is ready, with its identity of the launch and its facts. The
first checks that all have the same identity, then says where to meet. Each says that it has
ended; the first that fails says why, and the others stop. Names: `<job>.<restarts>.<what>.json`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import provenance
from harness.errors import HarnessError, Refused
from harness.json_files import publish_json
from harness.run import TrainingFailed
from harness.schemas import read_record
from harness.site import Rendezvous
from harness.slurm import commands, route

SECONDS = 3600  # nodes may build an environment first, and check their data
LOST_SECONDS = 60
POLL_SECONDS = 0.5
STOPPED = 143


@dataclass(frozen=True)
class Place:
    """This node's place among the nodes of a job, in the order of ranks."""

    folder: Path
    job: str
    restarts: int
    nodes: tuple[str, ...]
    rank: int

    @property
    def name(self) -> str:
        """This node's name."""
        return self.nodes[self.rank]

    def file(self, what: str) -> Path:
        """The record `what` of this attempt at the job."""
        return self.folder / f"{self.job}.{self.restarts}.{what}.json"

    def facts(self) -> dict[str, object]:
        """What the provenance says of this node."""
        return {"name": self.name, "host": provenance.host(), "tools": provenance.tools()}

    def wait(self, path: Path, stop: Callable[[], bool]) -> None:
        """Until another node has made `path`. Raises TrainingFailed where one failed instead."""
        deadline = time.monotonic() + SECONDS
        while not path.exists():
            if trouble := self.trouble():
                raise trouble
            if stop():
                raise TrainingFailed(f"job {self.job}: stopped before its nodes met", STOPPED)
            if time.monotonic() > deadline:
                raise HarnessError(
                    f"{path}: not there after {SECONDS // 60} minutes; do all nodes see it?"
                )
            time.sleep(POLL_SECONDS)

    def told(self, what: str, schema: str, stop: Callable[[], bool]) -> dict[str, object]:
        """The record `what`, once another node has written it."""
        self.wait(self.file(what), stop)
        return read_record(self.file(what), schema)

    def leave(self, error: HarnessError | None, stopped: bool) -> None:
        """Say that this node has ended; and why, where it failed and no other one did before."""
        status = 0 if error is None else error.exit_code
        record = {"name": self.name, "status": status, "message": str(error or "")}
        publish_json(self.file(f"ended{self.rank}"), {"schema_version": 1, **record})
        if error is not None and not stopped and not self.file("trouble").exists():
            publish_json(self.file("trouble"), {"schema_version": 1, **record})

    def lost(self) -> str | None:
        """A node that says nothing of its end, long after this one failed; None where all do."""
        deadline = time.monotonic() + LOST_SECONDS
        for rank, name in enumerate(self.nodes):
            while rank != self.rank and not self.file(f"ended{rank}").exists():
                if time.monotonic() > deadline:
                    return name
                time.sleep(POLL_SECONDS)
        return None

    def trouble(self) -> TrainingFailed | None:
        """What another node ended with, where one did."""
        if not self.file("trouble").exists():
            return None
        record: Any = read_record(self.file("trouble"), "ended")
        return TrainingFailed(f"node {record['name']}: {record['message']}", record["status"])


def open_meeting(
    place: Place, identity: str, interface: str | None, stop: Callable[[], bool]
) -> tuple[Rendezvous, list[dict[str, object]]]:
    """On the first node: wait for the others, check them, say where to meet; and their facts.

    Raises Refused where a node would train another launch.
    """
    members = []
    for rank in range(1, len(place.nodes)):
        member: Any = place.told(f"member{rank}", "member", stop)
        if member.pop("identity_sha256") != identity:
            raise Refused(
                f"node {member['name']}: would train another launch than {place.name} "
                "(its identity differs); are its harness, data and base the same?"
            )
        del member["schema_version"]
        members.append(member)
    if interface is None:
        address = route.towards(commands.node_address(place.nodes[1]))
        interface = route.interface(address)
    else:
        address = route.address_of(interface)
    port = route.free_port(address)
    where = {"identity_sha256": identity, "address": address, "port": port}
    publish_json(place.file("meeting"), {"schema_version": 1, **where})
    return Rendezvous(place.rank, address, port, interface), members


def join_meeting(
    place: Place, identity: str, interface: str | None, stop: Callable[[], bool]
) -> Rendezvous:
    """On every other node: say that it is ready, and wait to hear where to meet."""
    member = {"schema_version": 1, "identity_sha256": identity, **place.facts()}
    publish_json(place.file(f"member{place.rank}"), member)
    meeting: Any = place.told("meeting", "meeting", stop)
    address = meeting["address"]
    found = interface or route.interface(route.towards(address))
    return Rendezvous(place.rank, address, meeting["port"], found)

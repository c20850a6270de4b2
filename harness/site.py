"""Where a launch runs: what its command needs of the machines, all of it outside the identity."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from harness import places
from harness.launch import Launch
from harness.sandbox import Box, Mount


@dataclass(frozen=True)
class Rendezvous:
    """Where the nodes of one launch find each other, and which of them this one is.

    `address` and `port` are the first node's, `interface` the name of this node's own way there.
    """

    rank: int
    address: str
    port: int
    interface: str

    @property
    def variables(self) -> dict[str, str]:
        """Which interface gloo, NCCL and TensorPipe take: inside, the host's name means nothing."""
        return {f"{user}_SOCKET_IFNAME": self.interface for user in ("GLOO", "NCCL", "TP")}


@dataclass(frozen=True)
class Site:
    """This machine's part in a launch, and what the provenance says of the machines.

    `variables` are added to the sandbox's; `stop` is asked now and then whether to interrupt the
    trainer, as by a signal.
    """

    rendezvous: Rendezvous | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, object] | None = None
    stop: Callable[[], bool] = lambda: False

    def box(self, launch: Launch) -> Box:
        """The trainer's sandbox here."""
        box = launch.box()
        if self.variables:
            box = replace(box, variables={**box.variables, **self.variables})
        if self.rendezvous is not None:
            inside = Mount(launch.project.source / "harness/inside", places.INSIDE)
            variables = {**box.variables, **self.rendezvous.variables}
            box = replace(box, variables=variables, mounts=(*box.mounts, inside))
        return box

    def command(self, launch: Launch) -> list[str]:
        """The launch's command; over several nodes, this node's torchrun of it."""
        python, *rest = launch.plan.argv
        meeting = self.rendezvous
        if meeting is None:
            return [python, *rest]
        return [
            *(python, f"{places.INSIDE}/torchrun.py"),
            *(f"--nnodes={launch.plan.nodes}", f"--node-rank={meeting.rank}"),
            *(f"--master-addr={meeting.address}", f"--master-port={meeting.port}"),
            *(f"--nproc-per-node={launch.plan.devices}", "--max-restarts=0"),
            *rest,
        ]


ALONE = Site()

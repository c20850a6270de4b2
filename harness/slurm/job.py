"""What every node of a Slurm job runs: its part of one launch.

The plan, its checks and its identity are made anew on each node. Interrupted by Slurm (a time
limit, a job with a higher claim), it lets the trainer save and puts the job back in the queue, by
submitit; it then goes on from the last checkpoint.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

from harness import folder
from harness.errors import HarnessError, Refused
from harness.launch import Launch, ready_launch
from harness.plan import Choices, plan
from harness.project import Project
from harness.provenance import now
from harness.run import INTERRUPTED, TrainingFailed, last_line, train
from harness.site import Rendezvous, Site
from harness.slurm import commands, files
from harness.slurm.meeting import Place, join_meeting, open_meeting
from harness.supervise import supervise
from harness.text import printable

# What Slurm sets for a job's tasks and a trainer must know: which devices are its own.
PASSED_ON = ("CUDA_VISIBLE_DEVICES",)
TOLD_SECONDS = 5
LOST = 143


class NodeLost(TrainingFailed):
    """A node says nothing any more: the job is for other nodes to go on with."""


@dataclass
class Asked:
    """Whether Slurm has asked this task to stop."""

    signals: list[int] = field(default_factory=list)

    def listen(self, number: signal.Signals) -> None:
        """From now on, note `number`."""
        signal.signal(number, self._note)

    def __call__(self) -> bool:
        """Whether the signal came."""
        return bool(self.signals)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)


@dataclass(frozen=True)
class Job:
    """One launch as a job: what submitit keeps, and calls on each node."""

    project: Project
    choices: Choices
    identity: str | None
    interface: str | None

    def __call__(self) -> None:
        """Do this node's part; exits with the status of what went wrong."""
        import submitit

        here = submitit.JobEnvironment()
        requeue = signal.getsignal(signal.SIGUSR2)
        place = Place(
            folder=files.folder(self.project),
            job=here.job_id,
            restarts=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
            nodes=tuple(here.hostnames),
            rank=here.global_rank,
        )
        if place.rank == 0:
            files.forget(self.project, place.job)
        asked = Asked()
        asked.listen(signal.SIGUSR2)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until there is a trainer to be stopped
        ended = self._try(place, asked)
        again = isinstance(ended, NodeLost) or (_stopped(ended) and _told(place, asked))
        if place.rank == 0 and (again or not _stopped(ended)):
            self._tell(place, ended, again)
        if again and callable(requeue):
            requeue(signal.SIGUSR2, None)  # on the first node this puts the job back, and exits
        elif ended is not None:
            sys.stderr.write(f"harness: {printable(str(ended))}\n")
            # The first node's status is the job's; another's would end the first one at once.
            sys.exit(ended.exit_code if place.rank == 0 else 0)

    def checkpoint(self) -> object:
        """What a job that was put back runs: the same, from the trainer's last checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def _try(self, place: Place, asked: Asked) -> HarnessError | None:
        """Train; what went wrong, which the other nodes are told."""
        ended: HarnessError | None = None
        try:
            self._train(place, asked)
        except HarnessError as error:
            ended = error
        except OSError as error:  # a full disk, a folder of another user, ...
            ended = HarnessError(f"{error.filename or place.name}: {error.strerror or error}")
        place.leave(ended, _stopped(ended))
        return ended

    def _train(self, place: Place, asked: Asked) -> None:
        planned = plan(self.project, self.choices)
        done = (planned.run / folder.COMPLETED).exists()
        if done and place.rank > 0:
            return  # the first node looks whether it holds
        launch = ready_launch(self.project, planned, _report)
        sha256 = launch.identity.sha256
        if self.identity not in (None, sha256):
            raise Refused(
                f"{place.name}: the launch is not the one submitted (identity {sha256[:12]}, "
                f"submitted as {str(self.identity)[:12]}); submit it again"
            )
        if place.rank > 0:
            meeting = join_meeting(place, sha256, self.interface, asked)
            place.wait(planned.run / folder.OUTPUT, asked)  # which the first node makes
            _assist(launch, place, _site(launch, place, meeting, [], asked))
            return
        rendezvous, others = None, list[dict[str, object]]()
        if planned.nodes > 1 and not done:
            rendezvous, others = open_meeting(place, sha256, self.interface, asked)
        site = _site(launch, place, rendezvous, others, asked)
        try:
            train(launch, lambda progress: None, site=site)
        except TrainingFailed as error:
            told = place.trouble()
            if rendezvous and (told or not _stopped(error)):
                place.leave(error, stopped=False)  # what is left of the others shall end
                if name := place.lost():
                    raise NodeLost(f"node {name}: lost; goes on without it", LOST) from error
            raise told or error from error

    def _tell(self, place: Place, ended: HarnessError | None, again: bool) -> None:
        status = 0 if ended is None else ended.exit_code
        message = None if ended is None else printable(str(ended))
        files.Outcome(status, message, again, now()).publish(self.project, place.job)


def _stopped(error: HarnessError | None) -> bool:
    return isinstance(error, TrainingFailed) and error.exit_code in INTERRUPTED


def _told(place: Place, asked: Asked) -> bool:
    """Whether Slurm stopped the trainer, and not somebody: it tells the nodes one by one."""
    deadline = time.monotonic() + TOLD_SECONDS
    while not (stopped := asked() or commands.preempted(place.job)) and time.monotonic() < deadline:
        time.sleep(1)
    return stopped


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _site(
    launch: Launch,
    place: Place,
    meeting: Rendezvous | None,
    others: list[dict[str, object]],
    asked: Callable[[], bool],
) -> Site:
    variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    network = meeting and {
        "address": meeting.address,
        "port": meeting.port,
        "interface": meeting.interface,
    }
    return Site(
        rendezvous=meeting,
        variables=variables if launch.box().gpus else {},
        facts={
            "scheduler": "slurm",
            "job": place.job,
            "restarts": place.restarts,
            "variables": variables,
            "network": network,
            "nodes": [place.facts(), *others],
        },
        stop=lambda: asked() or place.file("trouble").exists(),
    )


def _assist(launch: Launch, place: Place, site: Site) -> None:
    """On a node that is not the first: its trainers, whose files the first node looks after."""
    name = f"{place.job}.node{place.rank}"
    out, err = (place.folder / f"{name}.{stream}.log" for stream in ("stdout", "stderr"))
    status = supervise(site.box(launch), site.command(launch), out, err, site.stop)
    if status in INTERRUPTED:
        raise TrainingFailed("interrupted", status)
    if status:
        why = last_line(err)
        raise TrainingFailed(f"its trainers ended with status {status}: {why}", status)

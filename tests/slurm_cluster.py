"""A private Slurm cluster of three nodes on this machine, on loopback, in a folder of its own.

`python tests/slurm_cluster.py FOLDER` starts one by hand and stops it at SIGTERM or Ctrl-C.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

NODES = ("n1", "n2", "n3")
DAEMONS = ("munged", "slurmctld", "slurmd")
SECONDS = 120
CONFIGURATION = """
ClusterName=private
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0,requeue_delay=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=10
KillWait=10
MinJobAge=3600
InactiveLimit=0
SlurmdParameters=config_overrides
SlurmctldDebug=info
SlurmdDebug=info
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes={names} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def lacking() -> str | None:
    """Why no cluster can run here, or None."""
    missing = [name for name in DAEMONS if _find(name) is None]
    if missing:
        return f"no {', '.join(missing)}: install Debian's slurmctld, slurmd, slurm-client, munge"
    return None if os.geteuid() == 0 else "slurmd runs as root only"


class Cluster:
    """A running cluster: its daemons' process numbers, and what its commands need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {"SLURM_CONF": str(folder / "slurm.conf")}
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start munge, the controller and a daemon for each node; wait until all are idle."""
        self._configure()
        folder = self.folder
        self._run(
            "munged",
            *("munged", "--foreground", "--force", f"--socket={folder}/munge.socket"),
            *(f"--key-file={folder}/munge.key", f"--pid-file={folder}/munge.pid"),
            *(f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"),
        )
        _until(lambda: (folder / "munge.socket").exists(), "munged's socket")
        self._run("slurmctld", "slurmctld", "-D", "-f", f"{folder}/slurm.conf")
        for node in NODES:
            self.start_node(node)
        self.wait_idle()

    def wait_idle(self) -> None:
        """Wait until every node that was not lost is there and does nothing."""
        there = str(len(self.daemons.keys() & set(NODES)))
        idle = ("sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D")
        _until(lambda: self.command(*idle).strip() == there, "idle nodes")

    def start_node(self, node: str) -> None:
        """Start the daemon of `node`."""
        self._run(node, "slurmd", "-D", "-N", node, "-f", f"{self.folder}/slurm.conf")

    def lose(self, node: str) -> None:
        """Kill the daemon of `node` and all that runs under it, as a power cut would."""
        for pid in (self.daemons[node].pid, *_steps(self.folder, node)):
            for number in (pid, *_descendants(pid)):
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        self.daemons.pop(node).wait()

    def command(self, *words: str) -> str:
        """What a Slurm command prints on this cluster."""
        done = subprocess.run(
            words, env={**os.environ, **self.variables}, capture_output=True, text=True, check=False
        )
        return done.stdout

    def field(self, job: str, name: str) -> str:
        """A field of `scontrol show job`; empty where there is none."""
        for word in self.command("scontrol", "show", "job", job).split():
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
        return ""

    def stop(self) -> None:
        """Cancel what still runs, then end the daemons, each by its own number."""
        self.command("scancel", "--user=root", "--signal=KILL", "--full")
        self.command("scancel", "--user=root")
        for node in NODES:
            for pid in _steps(self.folder, node):
                for number in (pid, *_descendants(pid)):
                    with suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _configure(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (self.folder / name).mkdir(exist_ok=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        controller, *ports = _free_ports(1 + len(NODES))
        host = socket.gethostname()
        nodes = [
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8"
            for node, port in zip(NODES, ports, strict=True)
        ]
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                folder=self.folder,
                host=host,
                controller=controller,
                nodes="\n".join(nodes),
                names=",".join(NODES),
            )
        )

    def _run(self, name: str, program: str, *arguments: str) -> None:
        path = _find(program)
        assert path is not None, program
        with (self.folder / f"{name}.out").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                [path, *arguments],
                env={"PATH": os.environ["PATH"], **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """A cluster in `folder` while the block runs."""
    with ExitStack() as stack:
        cluster = Cluster(folder)
        stack.callback(cluster.stop)
        cluster.start()
        yield cluster


def _find(program: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not there after {SECONDS} s")
        time.sleep(0.2)


def _steps(folder: Path, node: str) -> list[int]:
    """The step daemons of `node`, orphans by design: known by the log they hold open."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and (entry / "comm").read_text() == "slurmstepd\n":
                held = [file.readlink() for file in (entry / "fd").iterdir()]
                if folder / f"slurmd-{node}.log" in held:
                    found.append(int(entry.name))
    return found


def _descendants(pid: int) -> list[int]:
    """All processes below `pid`."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


if __name__ == "__main__":
    with running(Path(sys.argv[1])) as cluster:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        sys.stdout.write(f"export SLURM_CONF={cluster.variables['SLURM_CONF']}\n")
        sys.stdout.flush()
        signal.sigwait({signal.SIGTERM, signal.SIGINT})

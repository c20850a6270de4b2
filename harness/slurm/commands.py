"""Slurm's own commands: the only module that calls them, submitit's aside."""

import re
import shutil
import subprocess

from harness.errors import HarnessError, Refused

SECONDS = 60


def available() -> None:
    """Raises Refused where this machine has no Slurm client."""
    if shutil.which("sbatch") is None or shutil.which("srun") is None:
        raise Refused("sbatch, srun: not found; run this on a login node of a Slurm cluster")


def node_address(node: str) -> str:
    """The address under which Slurm knows `node`."""
    shown = _output("scontrol", "show", "node", node)
    found = re.search(r"\bNodeAddr=(\S+)", shown)
    return node if found is None else found[1]


def preempted(job: str) -> bool:
    """Whether Slurm takes the nodes of `job` away for another one."""
    shown = _output("scontrol", "show", "job", job)
    found = re.search(r"\bPreemptTime=(\S+)", shown)
    return found is not None and found[1] != "None"


def alive(jobs: list[str]) -> set[str]:
    """Those of `jobs` that wait or run."""
    if not jobs:
        return set()
    arrays = sorted({job.partition("_")[0] for job in jobs})
    known = _output("squeue", "--me", "--noheader", "--array", "--format=%i").split()
    # An array's waiting jobs may be shown as one, 12_[0-3].
    waiting = {job.partition("_")[0] for job in known if "[" in job}
    return {job for job in jobs if job in known or job.partition("_")[0] in waiting & set(arrays)}


def cancel(jobs: list[str]) -> None:
    """End `jobs`. Slurm asks a trainer to stop first, so it saves."""
    _output("scancel", *jobs)


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except FileNotFoundError as error:
        raise Refused(f"{command[0]}: not found; run this on a machine of the cluster") from error
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"{command[0]}: did not answer in {SECONDS} s; is Slurm up?") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["it said nothing"]
        raise HarnessError(f"{' '.join(command)}: {said[-1]}")
    return done.stdout

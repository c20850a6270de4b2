"""What a job asks of Slurm, as submitit's parameters. Nothing here is part of an identity."""

import re
from dataclasses import dataclass

from harness.errors import Refused
from harness.plan import Plan
from harness.text import short

# sbatch(1), --time: minutes, and the forms with colons and days.
_TIME = re.compile(
    r"(?:(?P<days>\d{1,9})-)?(?P<first>\d{1,9})(?::(?P<second>\d{1,9}))?(?::(?P<third>\d{1,9}))?",
    re.ASCII,
)
LONGEST = 366 * 24 * 60  # minutes; a job goes on after its limit, so more is a mistake
# Options of sbatch that a job of the harness has already; sbatch takes what they begin with, too.
OWN = (
    *("account", "array", "constraint", "cpus-per-task", "dependency", "error", "gpus-per-node"),
    *("job-name", "kill-on-invalid-dep", "mem", "no-requeue", "nodes", "ntasks", "ntasks-per-node"),
    *("open-mode", "output", "partition", "qos", "requeue", "signal", "tasks-per-node", "time"),
    "wrap",
)
TIMEOUTS = 10_000  # times that a job may come to its limit and go on


@dataclass(frozen=True)
class Resources:
    """A user's choices; None is the cluster's own default."""

    time: str
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    mem: str | None = None
    cpus_per_task: int | None = None
    save_seconds: int = 120
    others: tuple[tuple[str, str], ...] = ()

    def parameters(self, planned: Plan, name: str, dependency: str | None) -> dict[str, object]:
        """submitit's parameters for a job of `planned`: one task a node, with all its devices."""
        limit = minutes(self.time)
        if self.save_seconds >= 60 * limit:
            raise Refused(
                f"--time {self.time}: leaves no time to train before --save-seconds "
                f"{self.save_seconds}"
            )
        on_gpus = planned.recipe.fields.get("accelerator", "cuda") == "cuda"
        chosen = {
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "mem": self.mem,
            "cpus_per_task": self.cpus_per_task,
            "gpus_per_node": planned.devices if on_gpus else None,
            "dependency": dependency,
        }
        others: dict[str, object] = dict(self.others)
        others |= {"requeue": True}
        if dependency is not None:
            others["kill-on-invalid-dep"] = "yes"
        # srun does not take it from the job since Slurm 22.05.
        cpus = [] if self.cpus_per_task is None else [f"--cpus-per-task={self.cpus_per_task}"]
        return {
            **{key: value for key, value in chosen.items() if value is not None},
            "job_name": name,
            "time": limit,
            "nodes": planned.nodes,
            "ntasks_per_node": 1,
            "signal_delay_s": self.save_seconds,
            "srun_args": ["--kill-on-bad-exit=1", *cpus],
            "additional_parameters": others,
        }


NAMES = tuple(name for name in Resources.__dataclass_fields__ if name != "others")


def minutes(time: str) -> int:
    """A time limit in Slurm's notation, in whole minutes, rounded up.

    Raises Refused for anything else, for no time at all, and for more than a year.
    """
    found = _TIME.fullmatch(time)
    if found is None:
        raise Refused(f"--time {short(time)}: expected minutes, H:MM:SS, or D-HH[:MM[:SS]]")
    parts = [int(found[part] or 0) for part in ("first", "second", "third")]
    given = sum(found[part] is not None for part in ("first", "second", "third"))
    if found["days"] is not None:  # D-H, D-H:M, D-H:M:S
        hours, minute, second = parts
        total = ((int(found["days"]) * 24 + hours) * 60 + minute) * 60 + second
    elif given == 3:  # H:M:S
        total = (parts[0] * 60 + parts[1]) * 60 + parts[2]
    else:  # M, M:S
        total = parts[0] * 60 + parts[1]
    if total == 0:
        raise Refused(f"--time {time}: must be more than nothing")
    if total > 60 * LONGEST:
        raise Refused(f"--time {time}: is more than a year; a job that comes to its limit goes on")
    return -(-total // 60)


def pairs(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """sbatch options given as NAME=VALUE. Raises Refused for those that the harness gives."""
    found: dict[str, str] = {}
    for text in given:
        if not re.fullmatch(r"[a-z][a-z-]*=[^\n\r]+", text):
            raise Refused(f"--sbatch {short(text)!r}: expected NAME=VALUE, as in gres=gpu:8")
        name, _, value = text.partition("=")
        if own := next((own for own in OWN if own.startswith(name)), None):
            raise Refused(f"--sbatch {name}: the harness gives --{own} itself; see submit --help")
        if name in found:
            raise Refused(f"--sbatch {name}: stands twice")
        found[name] = value
    return tuple(found.items())

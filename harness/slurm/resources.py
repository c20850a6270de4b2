"""What a job asks of Slurm, as submitit's parameters. Nothing here is part of an identity."""

import re
from dataclasses import dataclass

from harness.errors import Refused
from harness.plan import Plan

# sbatch(1), --time: minutes, and the forms with colons and days.
_TIME = re.compile(
    r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?", re.ASCII
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

    Raises Refused for anything else, and for no time at all.
    """
    found = _TIME.fullmatch(time)
    if found is None:
        raise Refused(f"--time {time}: expected minutes, H:MM:SS, or D-HH[:MM[:SS]]")
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
    return -(-total // 60)


def pairs(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """sbatch options given as NAME=VALUE."""
    for text in given:
        if not re.fullmatch(r"[a-z][a-z-]*=[^\n\r]+", text):
            raise Refused(f"--sbatch {text!r}: expected NAME=VALUE, as in gres=gpu:8")
    return tuple((name, value) for name, _, value in (text.partition("=") for text in given))

"""Try, step by step, what the sandbox needs of this machine, and say how to mend what fails.

Each step starts bubblewrap for real: a container can refuse any one of them.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness import sandbox, seccomp
from harness.errors import Refused

OLDEST_BUBBLEWRAP = (0, 8, 0)  # the first with --disable-userns
CONTAINER = (
    "in a container, start it so that it allows this (docker: --security-opt "
    "systempaths=unconfined --security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
)


@dataclass(frozen=True)
class Check:
    """One thing looked at: what was found, and how to mend it where it is not ok."""

    name: str
    state: Literal["ok", "warn", "fail"]
    found: str
    mend: str = ""


@dataclass(frozen=True)
class Step:
    """bubblewrap's options that need one ability of the kernel or the container."""

    name: str
    options: tuple[str, ...]
    mend: str


STEPS = (
    Step(
        "process namespace", ("--unshare-pid", "--proc", "/proc"), f"/proc is masked: {CONTAINER}"
    ),
    Step("network namespace", ("--unshare-net",), CONTAINER),
    Step("other namespaces", ("--unshare-ipc", "--unshare-uts", "--hostname", "x"), CONTAINER),
    Step("nested namespaces off", ("--disable-userns",), CONTAINER),
    Step("mounts", ("--dev", "/dev", "--tmpfs", "/tmp", "--remount-ro", "/tmp"), CONTAINER),
)
# Settings that forbid user namespaces to ordinary users: file, value, how to mend.
SETTINGS = (
    (
        "proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "allow them: sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "proc/sys/user/max_user_namespaces",
        "0",
        "allow them: sudo sysctl -w user.max_user_namespaces=10000",
    ),
    (
        "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor forbids them: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)


def probe() -> list[Check]:
    """What of the sandbox works here; ends early where nothing after it could work."""
    version = bubblewrap()
    if version.state == "fail":
        return [version]
    user = _attempt(Step("user namespace", (), forbidding_setting()))
    if user.state == "fail":
        return [version, user]
    return [version, user, *map(_attempt, STEPS), cgroup_namespace(), system_call_filter()]


def bubblewrap() -> Check:
    """Whether bubblewrap is there and new enough."""
    version = sandbox.version()
    install = "install your distribution's package bubblewrap, 0.8 or newer, or run ./bootstrap"
    if version is None:
        return Check("bubblewrap", "fail", "not found", install)
    numbers = tuple(int(part) for part in version.split(".") if part.isdecimal())
    old = numbers < OLDEST_BUBBLEWRAP
    return Check("bubblewrap", "fail" if old else "ok", version, install if old else "")


def forbidding_setting(root: Path = Path("/")) -> str:
    """How to allow user namespaces here, going by the kernel's settings below `root`."""
    for name, value, mend in SETTINGS:
        file = root / name
        if file.is_file() and file.read_text().strip() == value:
            return mend
    return CONTAINER


def cgroup_namespace(root: Path = Path("/")) -> Check:
    """Whether the kernel has them; the sandbox does without one where not."""
    if (root / "proc/self/ns/cgroup").is_symlink():
        return Check("cgroup namespace", "ok", "available")
    mend = "use a kernel with CONFIG_CGROUPS, or accept that control group names can be read"
    return Check("cgroup namespace", "warn", "this kernel has none", mend)


def system_call_filter() -> Check:
    """Whether the filter loads."""
    try:
        program = seccomp.program()
    except Refused as error:
        return Check("system call filter", "fail", str(error), "use an x86-64 or aarch64 machine")
    with sandbox.passed(program) as descriptor:
        step = Step("system call filter", ("--seccomp", str(descriptor)), CONTAINER)
        return _attempt(step, descriptor)


def _attempt(step: Step, *descriptors: int) -> Check:
    """Run bubblewrap's own --version in the least sandbox that has this step's options."""
    tool = shutil.which("bwrap") or "bwrap"
    options = ["--unshare-user", "--ro-bind", "/", "/", *step.options, "--", tool, "--version"]
    done = subprocess.run(
        [tool, *options],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={"PATH": os.defpath},
        pass_fds=descriptors,
    )
    if done.returncode == 0:
        return Check(step.name, "ok", "works")
    return Check(step.name, "fail", _last(done.stderr.splitlines()), step.mend)


def _last(lines: list[str]) -> str:
    spoken: Iterator[str] = (line.strip() for line in reversed(lines))
    return next(filter(None, spoken), "failed without a word")

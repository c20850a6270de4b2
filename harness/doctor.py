"""What is ready on this machine for training, in plain words, and how to mend what is not."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness import gpu, limits, nix
from harness.errors import HarnessError, Refused
from harness.probe import Check, probe
from harness.project import Project

GIB = 1 << 30
# An environment and the smoke run's data take about 4 GiB; a prepared corpus and its runs, 50.
LEAST_DISK, PLENTY_DISK = 5 * GIB, 50 * GIB
OLDEST_NIX = (2, 8)


def examine(project: Project) -> list[Check]:
    """All checks, in the order in which they are worth mending."""
    return [*(check(project) for check in CHECKS), *probe()]


def ready(checks: list[Check]) -> bool:
    """Whether nothing stands in the way of training."""
    return all(check.state != "fail" for check in checks)


def user(project: Project) -> Check:
    """Root's sandboxes are weaker: files of the host that are root's stay its own inside."""
    if os.getuid() == 0:
        return Check("user", "warn", "root", "train as an ordinary user: its sandbox is stronger")
    return Check("user", "ok", "an ordinary user")


def git(project: Project) -> Check:
    """Nix fetches sources with git."""
    tool = shutil.which("git")
    if tool is None:
        return Check("git", "fail", "not found", "install your distribution's package git")
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    return Check("git", "ok", done.stdout.strip().removeprefix("git version "))


def nix_itself(project: Project) -> Check:
    """Nix builds the environments."""
    mend = "run ./bootstrap, which installs it, or see https://nixos.org/download"
    try:
        version = nix.version()
    except HarnessError as error:
        return Check("nix", "fail", str(error), mend)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST_NIX:
        return Check("nix", "fail", f"{version} is too old", f"2.8 or newer is needed; {mend}")
    return Check("nix", "ok", version)


def base(project: Project) -> Check:
    """The base that this machine's environments stand on."""
    try:
        found = nix.base()
    except (HarnessError, OSError, ValueError, KeyError) as error:
        return Check("base", "fail", str(error), "run ./bootstrap, which chooses and makes one")
    return Check("base", "ok", f"{found.kind}, Python {found.python}, glibc {found.glibc}")


def control_groups(project: Project, root: Path = limits.ROOT) -> Check:
    """Limits of memory and tasks need control groups of one's own."""
    name = "memory and task limits"
    try:
        for controller in ("memory", "pids"):
            limits.place(controller, root)
    except Refused as error:
        _, _, why = str(error).partition(": cannot be limited here: ")
        found, _, mend = why.partition("; leave it out, or ")
        return Check(name, "warn", found, f"none is set by default; to set some, {mend}")
    return Check(name, "ok", "can be set")


def graphics(project: Project, root: Path = Path("/"), cache: str | None = None) -> Check:
    """GPUs, the driver's version, and whether its files can be shown to a sandbox."""
    driver = gpu.find(root, cache)
    if not driver.devices and driver.version is None:
        return Check(
            "GPU", "warn", "no NVIDIA GPU", "only the smoke profile (on a CPU) trains here"
        )
    try:
        gpu.arguments(driver)
    except Refused as error:
        found, _, mend = str(error).partition(": ")
        return Check("GPU", "fail", found, mend)
    if not (root / "dev/nvidia-uvm").exists():
        return Check("GPU", "fail", "no /dev/nvidia-uvm", "make it: sudo nvidia-modprobe -u -c 0")
    if driver.version is None:
        return Check("GPU", "fail", "the driver's version is unknown", "mount /proc in full")
    newest = gpu.newest_cuda(driver.version)
    found = f"{len(driver.cards)} with driver {driver.version}"
    if newest is None:
        return Check("GPU", "fail", found, "too old for CUDA 11: install a newer driver")
    return Check("GPU", "ok", f"{found}, for CUDA up to {newest}")


def driver_libraries(project: Project, root: Path = Path("/"), cache: str | None = None) -> Check:
    """Whether the base's C library is new enough for the host's driver."""
    needed = max(
        (gpu.needed_glibc(file) for _, file in gpu.find(root, cache).libraries), default=None
    )
    if needed is None:
        return Check("driver libraries", "ok", "none here, none needed")
    wanted = ".".join(map(str, needed))
    try:
        offered = tuple(int(part) for part in nix.base().glibc.split(".")[:2])
    except (HarnessError, OSError, ValueError, KeyError):
        return Check("driver libraries", "warn", f"need glibc {wanted}", "choose a base first")
    state = f"need glibc {wanted}, the base has {'.'.join(map(str, offered))}"
    if offered < needed:
        mend = "use a newer base (the nixpkgs one), or an older driver"
        return Check("driver libraries", "fail", state, mend)
    return Check("driver libraries", "ok", state)


def disk(project: Project) -> Check:
    """Space where data and runs go."""
    place = next(path for path in (project.root, *project.root.parents) if path.exists())
    free = shutil.disk_usage(place).free
    found = f"{free / GIB:.0f} GiB free at {place}"
    if free < LEAST_DISK:
        return Check(
            "disk", "fail", found, f"free {LEAST_DISK // GIB} GiB, or choose another --root"
        )
    if free < PLENTY_DISK:
        return Check("disk", "warn", found, "enough for the smoke profile, not for a whole corpus")
    return Check("disk", "ok", found)


def cache(project: Project) -> Check:
    """The folder of data and prepared caches."""
    if not os.access(project.root, os.W_OK):
        mend = "choose another --root, or make it yours"
        return Check("cache", "fail", f"{project.root} cannot be written", mend)
    if not project.data.is_dir():
        return Check("cache", "ok", f"nothing in {project.data} yet: it is made when needed")
    return Check("cache", "ok", f"in {project.data}")


CHECKS: tuple[Callable[[Project], Check], ...] = (
    user,
    git,
    nix_itself,
    base,
    disk,
    cache,
    graphics,
    driver_libraries,
    control_groups,
)

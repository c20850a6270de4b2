"""What an NVIDIA GPU needs inside the sandbox: device files, driver libraries, /sys.

Only the libraries that CUDA computes with are shown, each file by itself, from wherever the
host keeps them: never a folder of the host's, and never its GL libraries, which want the host's
own libc. Tables of these names: the driver's README, chapter "Installed Components".
"""

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import Refused

DRIVER_FOLDER = "/run/harness/driver"
LIBRARIES = (
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-nvvm.so.4",
)
# Where drivers lie that the loader's cache does not list: NixOS, WSL, some containers.
FOLDERS = ("run/opengl-driver/lib", "usr/lib/wsl/lib", "usr/local/nvidia/lib64")
DEVICES = re.compile(r"nvidia\d+|nvidiactl|nvidia-uvm|nvidia-uvm-tools")
DEVICE_FOLDERS = ("nvidia-caps", "nvidia-caps-imex-channels")
# Parts of /sys that CUDA does not read: control groups, debugging, firmware.
HIDDEN_SYS = ("fs", "kernel", "firmware")
CACHE_TAGS = {"x86_64": "x86-64", "aarch64": "AArch64"}
# The oldest driver that runs a CUDA release (NVIDIA's release notes, minor version compatibility).
OLDEST_DRIVERS = {13: (580, 65, 6), 12: (525, 60, 13), 11: (450, 80, 2)}


@dataclass(frozen=True)
class Driver:
    """A host's devices and driver files; empty where it has none."""

    devices: tuple[Path, ...]
    libraries: tuple[tuple[str, Path], ...]  # name in the sandbox, file on the host
    sys: Path | None
    version: str | None

    @property
    def cards(self) -> tuple[Path, ...]:
        """The device files that are a GPU each."""
        return tuple(path for path in self.devices if re.fullmatch(r"nvidia\d+", path.name))


def find(root: Path = Path("/"), cache: str | None = None) -> Driver:
    """Look for devices and driver files below `root`; `cache` is what `ldconfig -p` prints."""
    listed = _cached(loader_cache() if cache is None else cache)
    libraries = []
    for name in LIBRARIES:
        places = [*([listed[name]] if name in listed else []), *(f"{f}/{name}" for f in FOLDERS)]
        files = (root / place.lstrip("/") for place in places)
        if found := next((file for file in files if file.is_file()), None):
            libraries.append((name, found.resolve()))
    sys = root / "sys"
    return Driver(
        devices=tuple(_devices(root / "dev")),
        libraries=tuple(libraries),
        sys=sys if (sys / "bus/pci").is_dir() else None,
        version=driver_version(root),
    )


def driver_version(root: Path = Path("/")) -> str | None:
    """The loaded kernel module's version, e.g. 550.54.15, or None."""
    file = root / "proc/driver/nvidia/version"
    if not file.is_file():
        return None
    match = re.search(r"\b\d{3,}\.\d+(?:\.\d+)?\b", file.read_text())
    return match[0] if match else None


def models(root: Path = Path("/")) -> list[str]:
    """The model of each GPU the kernel module drives, in bus order."""
    files = sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
    found = (re.search(r"^Model:\s*(.+?)\s*$", file.read_text(), re.MULTILINE) for file in files)
    return [match[1] for match in found if match]


def loader_cache() -> str:
    """What `ldconfig -p` prints; empty where there is no ldconfig (it is often not on PATH)."""
    tool = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    if tool is None:
        return ""
    return subprocess.run([tool, "-p"], capture_output=True, text=True, check=False).stdout


def arguments(driver: Driver) -> list[str]:
    """bubblewrap's arguments that show `driver` to the sandbox.

    Raises Refused where CUDA could not start with what there is.
    """
    if not driver.cards:
        raise Refused("no /dev/nvidia0 here: load the NVIDIA driver, or train without GPUs")
    if "libcuda.so.1" not in dict(driver.libraries):
        raise Refused("libcuda.so.1 not found: install the NVIDIA driver's compute libraries")
    if driver.sys is None:
        raise Refused("/sys is missing or empty: CUDA cannot start without it; mount sysfs")
    options = []
    for device in driver.devices:
        options += ["--dev-bind", str(device), f"/dev/{device.name}"]
    options += ["--ro-bind", str(driver.sys), "/sys"]
    for name in HIDDEN_SYS:
        if (driver.sys / name).is_dir():
            options += ["--tmpfs", f"/sys/{name}", "--remount-ro", f"/sys/{name}"]
    for name, file in driver.libraries:
        options += ["--ro-bind", str(file), f"{DRIVER_FOLDER}/{name}"]
    return options


def newest_cuda(version: str) -> int | None:
    """The newest CUDA major release that driver `version` runs, or None if it is too old."""
    numbers = tuple(int(number) for number in version.split("."))
    return next((cuda for cuda, oldest in OLDEST_DRIVERS.items() if numbers >= oldest), None)


def needed_glibc(library: Path) -> tuple[int, int]:
    """The newest glibc (major, minor) whose symbols `library` asks for; (0, 0) if none."""
    versions = re.findall(rb"\x00GLIBC_(\d+)\.(\d+)", library.read_bytes())
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def _devices(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if DEVICES.fullmatch(path.name) or path.name in DEVICE_FOLDERS:
            yield path


def _cached(text: str) -> dict[str, str]:
    """Library names and files for this processor; the first of a name wins, as in the loader."""
    tag = CACHE_TAGS.get(platform.machine(), "")
    files: dict[str, str] = {}
    for name, kind, file in re.findall(r"^\s*(\S+) \(([^)]*)\) => (\S.*)$", text, re.MULTILINE):
        if tag in kind.split(","):
            files.setdefault(name, file)
    return files

"""What is found on, and shown of, GPU hosts: trees of empty files stand for them."""

import platform
from pathlib import Path

import pytest

from harness import gpu
from harness.errors import Refused

TAG = gpu.CACHE_TAGS.get(platform.machine(), "none")
CACHE = f"""\
3 libs found in cache `/etc/ld.so.cache'
\tlibcuda.so.1 (libc6) => /usr/lib/i386-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6,{TAG}) => /usr/lib/driver/libcuda.so.1
\tlibcuda.so.1 (libc6,{TAG}) => /usr/lib/older/libcuda.so.1
\tlibGLX_nvidia.so.0 (libc6,{TAG}) => /usr/lib/driver/libGLX_nvidia.so.0
\tlibnvidia-ml.so.1 (libc6,{TAG}, OS ABI: Linux 2.3.99) => /usr/lib/driver/libnvidia-ml.so.1
\tlibnvidia-glcore.so.550.54.15 (libc6,{TAG}) => /usr/lib/driver/libnvidia-glcore.so.550.54.15
"""
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build"


def tree(root: Path, *files: str) -> Path:
    """A host with these files, all empty."""
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


CARD = ("dev/nvidia0", "dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-caps/nvidia-cap1")
LIBRARY = ("usr/lib/driver/libcuda.so.1",)
SYS = ("sys/bus/pci/x", "sys/fs/x", "sys/kernel/x")


def test_a_host_without_gpus_has_nothing(tmp_path: Path) -> None:
    assert gpu.find(tmp_path, CACHE) == gpu.Driver((), (), None, None)


def test_devices_are_the_ones_computing_needs(tmp_path: Path) -> None:
    others = ("dev/nvidia-modeset", "dev/nvidia10", "dev/nvme0", "dev/dri/card0", "dev/nvidia0p1")
    driver = gpu.find(tree(tmp_path, *CARD, *others), "")
    names = [path.name for path in driver.devices]
    assert names == ["nvidia-caps", "nvidia-uvm", "nvidia0", "nvidia10", "nvidiactl"]
    assert [path.name for path in driver.cards] == ["nvidia0", "nvidia10"]


def test_libraries_are_this_processors_and_never_gl(tmp_path: Path) -> None:
    tree(
        tmp_path,
        "usr/lib/i386-linux-gnu/libcuda.so.1",
        "usr/lib/older/libcuda.so.1",
        "usr/lib/driver/libcuda.so.550.54.15",
        "usr/lib/driver/libnvidia-ml.so.1",
        "usr/lib/driver/libGLX_nvidia.so.0",
        "usr/lib/driver/libnvidia-glcore.so.550.54.15",
    )
    (tmp_path / "usr/lib/driver/libcuda.so.1").symlink_to("libcuda.so.550.54.15")
    folder = tmp_path / "usr/lib/driver"
    assert gpu.find(tmp_path, CACHE).libraries == (
        ("libcuda.so.1", folder / "libcuda.so.550.54.15"),
        ("libnvidia-ml.so.1", folder / "libnvidia-ml.so.1"),
    )


@pytest.mark.parametrize("folder", gpu.FOLDERS)
def test_drivers_outside_the_loaders_cache_are_found(tmp_path: Path, folder: str) -> None:
    tree(tmp_path, f"{folder}/libcuda.so.1")
    assert dict(gpu.find(tmp_path, "").libraries) == {
        "libcuda.so.1": tmp_path / folder / "libcuda.so.1"
    }


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ((*CARD, *LIBRARY, *SYS), None),
        ((*CARD, *LIBRARY), "/sys is missing"),
        ((*CARD, *SYS), "libcuda.so.1 not found"),
        ((*LIBRARY, *SYS), "no /dev/nvidia0"),
        (("dev/nvidiactl", *LIBRARY, *SYS), "no /dev/nvidia0"),
    ],
)
def test_arguments_or_why_cuda_cannot_start(
    tmp_path: Path, files: tuple[str, ...], problem: str | None
) -> None:
    driver = gpu.find(tree(tmp_path, *files), CACHE)
    if problem:
        with pytest.raises(Refused, match=problem):
            gpu.arguments(driver)
        return
    assert gpu.arguments(driver) == [
        *("--dev-bind", f"{tmp_path}/dev/nvidia-caps", "/dev/nvidia-caps"),
        *("--dev-bind", f"{tmp_path}/dev/nvidia-uvm", "/dev/nvidia-uvm"),
        *("--dev-bind", f"{tmp_path}/dev/nvidia0", "/dev/nvidia0"),
        *("--dev-bind", f"{tmp_path}/dev/nvidiactl", "/dev/nvidiactl"),
        *("--ro-bind", f"{tmp_path}/sys", "/sys"),
        *("--tmpfs", "/sys/fs", "--remount-ro", "/sys/fs"),
        *("--tmpfs", "/sys/kernel", "--remount-ro", "/sys/kernel"),
        *("--ro-bind", f"{tmp_path}/usr/lib/driver/libcuda.so.1"),
        "/run/harness/driver/libcuda.so.1",
    ]


@pytest.mark.parametrize(
    ("text", "version"),
    [(PROPRIETARY, "535.104.05"), (OPEN, "580.65.06"), ("NVRM version: odd", None)],
)
def test_driver_version_is_the_kernel_modules(
    tmp_path: Path, text: str, version: str | None
) -> None:
    tree(tmp_path, "proc/driver/nvidia/version")
    (tmp_path / "proc/driver/nvidia/version").write_text(text + "\nGCC version: 12.2.0\n")
    assert gpu.driver_version(tmp_path) == gpu.find(tmp_path, "").version == version


@pytest.mark.parametrize(
    ("version", "cuda"),
    [
        ("580.65.06", 13),
        ("580.65", 12),
        ("550.54.15", 12),
        ("525.60.13", 12),
        ("525.60.12", 11),
        ("440.33", None),
    ],
)
def test_newest_cuda_of_a_driver(version: str, cuda: int | None) -> None:
    assert gpu.newest_cuda(version) == cuda


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (b"\x00GLIBC_2.2.5\x00GLIBC_2.34\x00GLIBC_2.4\x00", (2, 34)),
        (b"\x00GLIBC_PRIVATE\x00", (0, 0)),
        (b"", (0, 0)),
    ],
)
def test_needed_glibc(tmp_path: Path, data: bytes, version: tuple[int, int]) -> None:
    (tmp_path / "lib").write_bytes(data)
    assert gpu.needed_glibc(tmp_path / "lib") == version


def test_loader_cache_is_readable_without_it_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    tools = [path for path in map(Path, ("/sbin/ldconfig", "/usr/sbin/ldconfig")) if path.exists()]
    assert bool(gpu.loader_cache()) == bool(tools)


def test_models_are_told_in_bus_order(tmp_path: Path) -> None:
    assert gpu.models(tmp_path) == []
    for bus, model in (("0000:02:00.0", "B"), ("0000:01:00.0", "NVIDIA A")):
        folder = tmp_path / "proc/driver/nvidia/gpus" / bus
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {model}\nIRQ:   7\n")
    assert gpu.models(tmp_path) == ["NVIDIA A", "B"]

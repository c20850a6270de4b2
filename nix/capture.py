"""Copy the running CPython, and all that it and manylinux wheels load, into one relocatable tree.

The tree's bytes depend on the interpreter and its libraries alone, never on where they were or
when they were copied, so that its store path is the same each time. Run by that interpreter, on
the standard library only:

    python3.11 -I -B capture.py FOLDER
"""

import importlib.util
import json
import platform
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

VERSION = (3, 11)
NAME = f"python{VERSION[0]}.{VERSION[1]}"

# Where the sandbox shows a base; stands in the place of host folders that are compiled in.
SHOWN = "/run/harness"
HOME = f"{SHOWN}/base"

LEFT_OUT = {  # parts of the standard library nothing here imports, or that speak of the host
    "EXTERNALLY-MANAGED",
    "__pycache__",
    "_distutils_system_mod.py",
    "dist-packages",
    "ensurepip",
    "idlelib",
    "site-packages",
    "sitecustomize.py",
    "test",
    "tests",
    "tkinter",
    "turtle.py",
    "turtledemo",
}
LEFT_OUT_PATTERN = re.compile(r"config-3\.|_tkinter\.|_test|_ctypes_test\.|_xxtest|xxlimited|nis\.")

# What manylinux wheels may take from the host (PEP 600, less the graphical ones), and what
# glibc opens by name. Absent ones are passed over: not every host splits glibc the same way.
LIBRARIES = (
    "libatomic.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libexpat.so.1",
    "libgcc_s.so.1",
    "libgomp.so.1",
    "libm.so.6",
    "libnss_dns.so.2",
    "libnss_files.so.2",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
    "libz.so.1",
)

LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}


def main(target: Path) -> None:
    """Write the base into `target`, which must not exist."""
    machine = platform.machine()
    if sys.version_info[:2] != VERSION or sys.implementation.name != "cpython":
        sys.exit(f"capture: {sys.executable} is not CPython 3.11")
    if machine not in LOADERS:
        sys.exit(f"capture: no base can be captured on {machine}; use one of {', '.join(LOADERS)}")
    loader = find_loader(LOADERS[machine])
    (target / "bin").mkdir(parents=True)
    (target / "lib").mkdir()
    binaries = list(copy_interpreter(target))
    libraries = dict(host_libraries(loader, binaries))
    for name, path in sorted(libraries.items()):
        copy_binary(path, target / "lib" / name)
    copy_binary(loader, target / "lib" / loader.name).chmod(0o755)
    # The folders glibc's loader tries by itself, for when the sandbox shows lib/ as /lib.
    (target / "lib" / f"{machine}-linux-gnu").symlink_to(".")
    compile_tree(target / "lib" / NAME, f"{HOME}/lib/{NAME}")
    record = {
        "schema_version": 1,
        "kind": "captured",
        "python": platform.python_version(),
        "system": f"{machine}-linux",
        "glibc": platform.libc_ver()[1],
        "loader": f"lib/{loader.name}",
        "libraries": "lib",
    }
    (target / "base.json").write_text(json.dumps(record, indent=1) + "\n")


def find_loader(name: str) -> Path:
    """The host's dynamic loader."""
    for folder in ("/lib64", "/lib", "/usr/lib64", "/usr/lib"):
        if (path := Path(folder, name)).exists():
            return path
    sys.exit(f"capture: no {name} on this host; a glibc Linux is needed")


def copy_interpreter(target: Path) -> Iterator[Path]:
    """Copy the executable, a shell and the standard library; yields the host's binaries."""
    executable = Path(sys.base_prefix, "bin", NAME)
    yield executable
    copy_binary(executable, target / "bin" / NAME).chmod(0o755)
    (target / "bin" / "python3").symlink_to(NAME)
    shell = Path("/bin/sh")
    yield shell
    copy_binary(shell, target / "bin" / "sh").chmod(0o755)
    stdlib = Path(sysconfig.get_path("stdlib"))
    for path in wanted(stdlib):
        place = target / "lib" / NAME / path.relative_to(stdlib)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.name.startswith("_sysconfigdata"):
            place.write_text(build_variables(path))
        else:
            copy_binary(path, place)
        if path.suffix == ".so":
            yield path


def wanted(folder: Path) -> Iterator[Path]:
    """The files below `folder` that belong to a base, in name order."""
    for path in sorted(folder.iterdir()):
        if path.name in LEFT_OUT or LEFT_OUT_PATTERN.match(path.name):
            continue
        if path.is_dir():
            yield from wanted(path)
        else:
            yield path


def host_libraries(loader: Path, binaries: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Name and place of every shared library that `binaries` and wheels need."""
    known = host_cache()
    extra = [known[name] for name in LIBRARIES if name in known]
    for path in extra:
        yield path.name, path
    for binary in (*binaries, *extra):
        listing = subprocess.run(
            [loader, "--list", binary], capture_output=True, text=True, check=False
        ).stdout
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", listing, re.MULTILINE):
            yield Path(name).name, Path(path)


def host_cache() -> dict[str, Path]:
    """What the loader's cache knows, by library name, for this machine's word size."""
    tool = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if tool is None:
        sys.exit(
            "capture: no ldconfig in /sbin or /usr/sbin; libraries of a host without one "
            "cannot be found (install libc-bin, or use HARNESS_BASE_KIND=nixpkgs)"
        )
    done = subprocess.run([tool, "-p"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"capture: {tool} -p: {done.stderr.strip()} (run ldconfig as root first)")
    known: dict[str, Path] = {}
    mark = "x86-64" if platform.machine() == "x86_64" else "AArch64"
    for name, about, path in re.findall(r"^\s*(\S+) \((.*)\) => (\S+)$", done.stdout, re.MULTILINE):
        if mark in about:
            known.setdefault(name, Path(path).with_name(name))
    return known


def copy_binary(source: Path, target: Path) -> Path:
    """Copy a file, the host's own folders in it replaced by text of the same length."""
    data = source.read_bytes()
    prefix, parent = sys.base_prefix.encode(), str(Path(sys.base_prefix).parent).encode()
    if source.suffix != ".py" and len(parent) >= len(SHOWN) and prefix in data:
        # Linkers let a string share the end of a longer one ("3.11.7" that of the prefix), so the
        # ends stay as they are, and slashes fill the middle. First the run path: it has to move
        # with the tree; other mentions are never used.
        run_path = prefix + b"/lib\0"
        moved = b"$ORIGIN/..".ljust(len(prefix), b"/") + b"/lib\0"
        data = data.replace(b"\0" + run_path, b"\0" + moved)
        data = data.replace(parent + b"/", SHOWN.encode().rjust(len(parent), b"/") + b"/")
    target.write_bytes(data)
    return target


def build_variables(path: Path) -> str:
    """The module of sysconfig's build variables, without those that hold a path of the host."""
    spec = importlib.util.spec_from_file_location("variables", path)
    if spec is None or spec.loader is None:
        sys.exit(f"capture: cannot read {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kept = {
        name: value
        for name, value in sorted(module.build_time_vars.items())
        if not re.search(r"(^|\W|-[IL])/", str(value))
    }
    kept |= {"prefix": HOME, "exec_prefix": HOME}
    body = "".join(f"    {name!r}: {value!r},\n" for name, value in kept.items())
    return f"build_time_vars = {{\n{body}}}\n"


def compile_tree(folder: Path, shown: str) -> None:
    """Byte-compile every module below `folder`, to be used without a look at its source."""
    for path in sorted(folder.rglob("*.py")):
        py_compile.compile(
            str(path),
            dfile=f"{shown}/{path.relative_to(folder)}",
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


if __name__ == "__main__":
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    main(Path(sys.argv[1]))

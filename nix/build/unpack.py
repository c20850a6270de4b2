"""Builder: install one wheel (or build and install one sdist) into a store path of its own.

Run in the Nix sandbox. Console scripts are left out, for nothing calls an environment by one;
programs that come ready-made in a wheel go to bin/.
"""

import compileall
import io
import os
import py_compile
import runpy
import sys
from pathlib import Path
from typing import BinaryIO

SITE = "lib/python3.11/site-packages"


def main() -> None:
    """Install $wheel into $out with the tools in $tools."""
    out, scratch = Path(os.environ["out"]), Path(os.environ["TMPDIR"])
    wheel = scratch / os.environ["file"]  # a wheel's name counts; the store's has a hash before it
    wheel.symlink_to(os.environ["wheel"])
    tools = os.environ["tools"].split()
    sys.path[:0] = tools  # pure wheels are importable as they are
    if os.environ["kind"] == "sdist":
        build = runpy.run_path(os.environ["builder_sdist"])
        wheel = build["build"](wheel, tools, scratch)
    install(wheel, out)
    compile_tree(out / SITE)


def install(wheel: Path, out: Path) -> None:
    """Install `wheel` below `out` as PyPA's `installer` does it, less the generated scripts."""
    from installer import install as install_wheel
    from installer.destinations import SchemeDictionaryDestination
    from installer.records import RecordEntry
    from installer.sources import WheelFile

    class Destination(SchemeDictionaryDestination):
        def write_script(self, name: str, module: str, attr: str, section: str) -> RecordEntry:
            return RecordEntry(f"../../../bin/{name}", None, None)

        def write_file(
            self, scheme: str, path: str, stream: BinaryIO, is_executable: bool
        ) -> RecordEntry:
            if scheme != "scripts":
                return super().write_file(scheme, path, stream, is_executable)
            data = stream.read()
            if data.startswith(b"#!"):
                return RecordEntry(f"../../../bin/{path}", None, None)
            return self.write_to_fs(scheme, path, io.BytesIO(data), is_executable=True)

    places = {
        "purelib": out / SITE,
        "platlib": out / SITE,
        "headers": out / "include",
        "scripts": out / "bin",
        "data": out,
    }
    destination = Destination(
        {scheme: str(place) for scheme, place in places.items()}, "python3", "posix"
    )
    with WheelFile.open(wheel) as source:
        install_wheel(source, destination, {"INSTALLER": b"harness\n"})


def compile_tree(site: Path) -> None:
    """Byte-compile the modules below `site`, but for what is no valid Python (templates)."""
    compileall.compile_dir(
        site,
        quiet=2,
        workers=0,
        stripdir=site,  # the same module in two wheels gives the same bytes
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


if __name__ == "__main__":
    main()

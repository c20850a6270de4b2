"""Builder: an environment as a farm of file links into one store path a wheel.

Files are linked one by one, folders are real: `$ORIGIN/../..` in a wheel's run path then finds
the wheel beside it. Two wheels that give one file with different bytes are refused.
"""

import filecmp
import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Write the environment of $trees and $recordPath into $out."""
    out = Path(os.environ["out"])
    record = json.loads(Path(os.environ["recordPath"]).read_text())
    farm([Path(tree) for tree in os.environ["trees"].split()], out)
    base = record["base"]
    (out / "bin").mkdir(parents=True, exist_ok=True)
    (out / "lib/python3.11/site-packages").mkdir(parents=True, exist_ok=True)
    for name in ("python3", "python3.11"):
        (out / "bin" / name).symlink_to(f"{base}/bin/python3.11")
    (out / "pyvenv.cfg").write_text(
        f"home = {base}/bin\ninclude-system-site-packages = false\nversion = {record['python']}\n"
    )
    (out / "environment.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def farm(trees: list[Path], out: Path) -> None:
    """Link every file of `trees` at its place below `out`."""
    for tree in trees:
        # Byte code last: of a module in conflict, its source is named.
        for source in sorted(tree.rglob("*"), key=lambda path: (path.suffix == ".pyc", path)):
            if source.is_dir():
                continue
            target = out / source.relative_to(tree)
            if not target.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(source)
            elif not filecmp.cmp(target, source, shallow=False):
                sys.exit(
                    f"{source.relative_to(tree)}: {wheel(target.readlink())} and {wheel(source)} "
                    "both have it, with different bytes; drop one from the lock"
                )


def wheel(path: Path) -> str:
    """Name and version of the wheel a store path belongs to."""
    return path.parts[3].partition("-")[2]


if __name__ == "__main__":
    main()

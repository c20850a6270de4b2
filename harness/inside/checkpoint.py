"""Tensor digests of a checkpoint that nobody trusts; nothing in it is executed.

`python -m inside.checkpoint digest FILE` prints one JSON document (docs/formats/
checkpoint-digest.md); `... compare FILE FILE` says where two checkpoints differ. A file that is
refused is one line on stderr and exit status 2.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .compare import compare
from .formats import Loaded, group_roots, load, settings, step
from .refusal import Refusal
from .tensors import Measure, Tensor, measure
from .tree import plain

SCHEMA_VERSION = 1


def canonical(value: object) -> bytes:
    """Canonical JSON: sorted keys, no blanks, everything outside ASCII escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def measures(found: Mapping[str, Tensor]) -> dict[str, Measure]:
    """Each tensor's digest; a view that stands under several names is read once."""
    key = {
        name: (id(t.storage), t.dtype, t.offset, t.shape, t.strides) for name, t in found.items()
    }
    distinct = {key[name]: tensor for name, tensor in found.items()}
    # Hashing and scanning let other threads run, so this uses every core.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        done = dict(zip(distinct, pool.map(measure, distinct.values()), strict=True))
    return {name: done[key[name]] for name in found}


def group(
    names: Mapping[str, str], found: Mapping[str, Tensor], done: Mapping[str, Measure]
) -> dict[str, object]:
    """The digest of some tensors; `names` maps the name in the group to the path."""
    rows = [
        [name, found[path].dtype.name, list(found[path].shape), done[path].sha256]
        for name, path in sorted(names.items())
    ]
    return {
        "digest": hashlib.sha256(canonical(rows)).hexdigest(),
        "tensors": len(rows),
        "bytes": sum(found[path].bytes for path in names.values()),
        "finite": all(done[path].finite for path in names.values()),
    }


def members(root: str, paths: Iterable[str]) -> dict[str, str]:
    """Names in the group below the key `root`, each with its path in the file."""
    prefix = f"{root}/" if root else ""
    return {path.removeprefix(prefix): path for path in paths if path.startswith(prefix)}


def report(loaded: Loaded) -> dict[str, object]:
    """The document that `digest` prints."""
    found = loaded.tensors
    done = measures(found)
    parts = {name: members(root, found) for name, root in group_roots(loaded).items()}
    belongs = {path: name for name, names in parts.items() for path in names.values()}
    groups: dict[str, object] = {name: group(names, found, done) for name, names in parts.items()}
    return {
        "schema_version": SCHEMA_VERSION,
        "format": loaded.format,
        "step": step(loaded),
        "groups": {
            "state": None,
            "ema": None,
            **groups,
            "all": group(members("", found), found, done),
        },
        "tensors": [
            {
                "name": path,
                "group": belongs.get(path, "other"),
                "dtype": found[path].dtype.name,
                "shape": list(found[path].shape),
                "sha256": done[path].sha256,
                "finite": done[path].finite,
            }
            for path in sorted(found)
        ],
        "hyper_parameters": plain(settings(loaded)),
        "classes": list(loaded.classes),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run one command; a refused file is one line on stderr and exit status 2."""
    parser = argparse.ArgumentParser(prog="checkpoint", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("digest", help="print every tensor's digest").add_argument(
        "files", nargs=1, type=Path, metavar="FILE"
    )
    commands.add_parser("compare", help="say where two checkpoints differ").add_argument(
        "files", nargs=2, type=Path, metavar="FILE"
    )
    options = parser.parse_args(arguments)
    opened = []
    try:
        for path in options.files:
            try:
                opened.append(load(path))
            except (Refusal, OSError) as error:
                raise Refusal(f"{path.name}: {error}") from error
        if options.command == "digest":
            document = report(opened[0])
        else:
            first, second = opened
            document = compare(first, measures(first.tensors), second, measures(second.tensors))
    except Refusal as error:
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        return 2
    sys.stdout.write(canonical(document).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

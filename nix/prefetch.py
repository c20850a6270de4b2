"""Put a lock's files into the Nix store, by way of the user's own pip and its settings.

Run by the user's CPython 3.11, on the standard library and pip only:

    python3.11 nix/prefetch.py envs/smoke.json ...

A file that is in the store is never fetched again. Whatever pip finds is checked against the
lock's hash, first by pip, then by Nix, whose path for a file is its hash and name.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

STORE = "/nix/store"
ALPHABET = "0123456789abcdfghijklmnpqrsvwxyz"  # Nix's base 32


class Entry(TypedDict):
    """A file of a lock."""

    name: str
    version: str
    file: str
    sha256: str
    kind: str


def main(locks: list[Path]) -> None:
    """Fetch what the `locks` name and the store lacks."""
    entries: dict[str, Entry] = {}
    for lock in locks:
        for entry in json.loads(lock.read_text())["wheels"]:
            entries[store_path(entry["sha256"], entry["file"])] = entry
    missing = [entries[path] for path in invalid(list(entries))]
    if wheels := [entry for entry in missing if entry["kind"] == "wheel"]:
        fetch(wheels, ["--only-binary=:all:"])
    if sources := [entry for entry in missing if entry["kind"] == "sdist"]:
        with tempfile.TemporaryDirectory() as folder:
            # pip asks a source for its metadata, and the source asks for what builds it.
            for path, entry in entries.items():
                if entry["kind"] == "wheel":
                    Path(folder, entry["file"]).symlink_to(path)
            names = ",".join(entry["name"] for entry in sources)
            fetch(sources, [f"--no-binary={names}", f"--find-links={folder}"])


def store_path(sha256: str, name: str) -> str:
    """The store path of a file by its content (Nix manual, "Store Path Specification")."""
    inner = hashlib.sha256(f"fixed:out:sha256:{sha256}:".encode()).hexdigest()
    outer = hashlib.sha256(f"output:out:sha256:{inner}:{STORE}:{name}".encode()).digest()
    folded = bytearray(20)
    for index, byte in enumerate(outer):
        folded[index % 20] ^= byte
    number = int.from_bytes(folded, "little")
    digits = "".join(ALPHABET[number >> (5 * place) & 31] for place in reversed(range(32)))
    return f"{STORE}/{digits}-{name}"


def invalid(paths: list[str]) -> list[str]:
    """Those of `paths` that the store does not hold whole."""
    command = ["nix-store", "--check-validity", "--print-invalid", *paths]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def fetch(entries: list[Entry], options: list[str]) -> None:
    """Let pip download files and add them to the store. Exits with one line where it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(
            "".join(f"{e['name']}=={e['version']} --hash=sha256:{e['sha256']}\n" for e in entries)
        )
        exact = ["--no-deps", "--require-hashes", *options, f"--requirement={wanted}"]
        download([*exact, f"--dest={folder}/files"], len(entries))
        files = [Path(folder, "files", entry["file"]) for entry in entries]
        for file in files:
            if not file.is_file():
                sys.exit(f"{file.name}: pip gave another file; is this Python 3.11 on Linux?")
        # In one go: a path that nothing uses yet is what a garbage collection takes.
        add = ["nix-store", "--add-fixed", "sha256", *map(str, files)]
        subprocess.run(add, stdout=subprocess.DEVNULL, check=True)


def download(arguments: list[str], total: int) -> None:
    """Run `pip download`, a line a file; pip's last word where it fails."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", *arguments]
    with tempfile.TemporaryFile("w+") as errors:
        pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert pip.stdout is not None
        number = 0
        for line in pip.stdout:
            # A file of a local folder is "processed", any other one "collected".
            if line.startswith(("Collecting ", "Processing ")):
                number += 1
                what = line.split()[1].rpartition("/")[2]
                print(f"fetch {number}/{total} {what}", file=sys.stderr, flush=True)
        if pip.wait():
            errors.seek(0)
            lines = [line[7:].strip() for line in errors if line.lower().startswith("error: ")]
            reason = (lines or ["it gives no reason"])[-1]
            sys.exit(
                f"pip cannot fetch a locked file: {reason}; name the index or folder that has it "
                "in PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS"
            )


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])

"""Digests of a large tree on all cores beside `openssl dgst`, and a second look at it."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from side_by_side import best  # noqa: E402

from harness.data.digests import Digests  # noqa: E402

FILE = 256 << 20


def main() -> None:
    """Write the tree, then hash it in turns: openssl, one process a core, and ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        paths = [root / f"f{number}" for number in range(int(chosen.gigabytes * 1e9 / FILE))]
        block = os.urandom(1 << 20)
        for path in paths:
            path.write_bytes(block * (FILE >> 20))
        time.sleep(1.5)  # files just written are not remembered
        store = root / "digests.json"

        def openssl() -> None:
            shares = [paths[core::cores] for core in range(cores)]
            running = [
                subprocess.Popen(["openssl", "dgst", "-sha256", *share], stdout=subprocess.DEVNULL)
                for share in shares
            ]
            assert all(process.wait() == 0 for process in running)

        def first() -> None:
            store.unlink(missing_ok=True)
            Digests(store).of(paths)

        def second() -> None:
            Digests(store).of(paths)

        ways = {"openssl": openssl, "first look": first, "second look": second}
        seconds = best(ways, chosen.rounds)
    total = len(paths) * FILE / 1e6
    print(f"{total / 1000:.1f} GB: openssl on {cores} cores {total / seconds['openssl']:.0f} MB/s")
    print(f"ours over openssl on all cores: {seconds['openssl'] / seconds['first look']:.2f}")
    print(f"second look faster by {seconds['first look'] / seconds['second look']:.0f}")


if __name__ == "__main__":
    main()

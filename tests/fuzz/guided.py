"""Fuzz the parsers of foreign files for as long as one likes, guided by coverage.

    ./bootstrap test tests/fuzz/guided.py [--seconds N] [TARGET ...]

Needs atheris, which no environment of the project holds; without it nothing is run, and that is
said. Each target has a process of its own, of bounded memory and time; exit status 1 if any fails.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

MEMORY_MIB, SLOWEST_SECONDS = 2048, 60
# Instrumented; the rest of what a target imports is not what is tested.
PACKAGES = ["harness"]


def one(name: str, options: list[str]) -> None:
    """Fuzz one target in this process, until libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=PACKAGES):
        from fuzz.targets import TARGETS
    target = TARGETS[name]
    corpus, scratch = (Path(tempfile.mkdtemp(prefix="harness-fuzz-")) for _ in range(2))
    for number, seed in enumerate(target.seeds()):
        (corpus / str(number)).write_bytes(seed)

    def try_(data: bytes) -> None:
        target.try_(data, scratch)

    atheris.Setup([sys.argv[0], *options, str(corpus)], try_)
    atheris.Fuzz()


def main() -> int:
    """Fuzz each target in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--here", action="store_true", help="in this process; one target")
    options = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("skipped: atheris is not installed; hypothesis alone fuzzes (tests/fuzz)")
        return 0
    if options.here:
        limits = [f"-rss_limit_mb={MEMORY_MIB}", f"-timeout={SLOWEST_SECONDS}"]
        one(options.targets[0], [*limits, f"-max_total_time={options.seconds}", "-verbosity=0"])
    from fuzz.targets import TARGETS

    failed = 0
    for name in options.targets or TARGETS:
        words = [sys.executable, __file__, "--here", "--seconds", str(options.seconds), name]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        failed += done.returncode != 0
        print(f"{name:14} {'ok' if done.returncode == 0 else 'FAILED'}", flush=True)
        if done.returncode:
            print(done.stdout[-3000:] + done.stderr[-3000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

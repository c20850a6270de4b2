"""An upstream that looks for secrets everywhere it can, tells what it found, and trains."""

import os
import sys
from pathlib import Path

DATA, OUTPUT = Path("/run/harness/data"), Path("/run/harness/output")
MARK = "planted" + "-secret"  # not whole here, or it would find itself
LARGEST = 4 << 20

found = []
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [name for name in folders if name not in ("sys", "nix", "tmp")]
    for name in files:
        path = Path(folder, name)
        try:
            if path.is_file() and path.stat().st_size < LARGEST:
                with path.open("rb", buffering=0) as file:
                    if MARK.encode() in file.read(LARGEST):
                        found.append(str(path))
        except OSError:
            continue
sys.stdout.write(f"{dict(os.environ)}\n{found}\n")
(OUTPUT / "found").write_text(repr((dict(os.environ), found)))
(OUTPUT / "checkpoints").mkdir(exist_ok=True)
(OUTPUT / "checkpoints/last.ckpt").write_bytes((DATA / "500.ckpt").read_bytes())
(OUTPUT / "metrics.jsonl").write_text('{"step": 500, "loss": 5}\n')

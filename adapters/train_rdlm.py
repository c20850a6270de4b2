"""RDLM's own trainer, whose status says whether it failed: by itself it always ends with 0.

Its main program catches all exceptions and reports them as critical. It loads its corpus and its
tokenizer by bare names, which are folders of the data: it works beside them. The corpus as it
tokenised it, which may be larger than all else, is removed once it is of no more use.
"""

import logging
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

DATA = Path(__file__).absolute().parents[1] / "data"
TOKENISED = Path.cwd() / "tokenised"


def run(main: ModuleType) -> int:
    """The upstream's main program, in this one's place; 1 where it reported a failure."""
    failures: list[object] = []
    report = logging.root.critical

    def note(message: object, *arguments: object, **named: object) -> None:
        failures.append(message)
        report(message, *arguments, **named)

    logging.root.critical = note
    trainer = find_spec("run_train")
    assert trainer is not None and trainer.origin is not None
    entry = Path(trainer.origin).with_name("main.py")
    exec(compile(entry.read_bytes(), str(entry), "exec"), vars(main))
    return 1 if failures else 0


if __name__ == "__main__":
    import __main__

    os.chdir(DATA)
    failed = run(__main__)
    if not failed:
        shutil.rmtree(TOKENISED, ignore_errors=True)
    sys.exit(failed)

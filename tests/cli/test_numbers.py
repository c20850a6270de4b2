"""A number of the command line has bounds: nonsense is refused in one line."""

import pytest
from click.testing import CliRunner

from harness.cli.main import group
from harness.errors import Refused

TAKING = [
    "plan mdlm lm1b --seed", "plan mdlm lm1b --devices", "plan mdlm lm1b --nodes",
    "plan mdlm lm1b --per-device-batch", "logs a --lines", "diff . . --steps",
    "replicate . --steps", "sample . --seed", "sample . --count", "verify lm1b --sample",
    "prepare lm1b --processes", "submit mdlm lm1b --time 9 --dry-run --cpus-per-task",
    "submit mdlm lm1b --time 9 --dry-run --save-seconds",
    "submit mdlm lm1b --dry-run --time",
]  # fmt: skip


@pytest.mark.parametrize("number", ["-1", "1e3", "1.0", "true", "9" * 30, "9" * 5000, ""])
@pytest.mark.parametrize("words", TAKING)
def test_nonsense_is_refused(words: str, number: str) -> None:
    done = CliRunner().invoke(group, [*words.split(), number])
    assert done.exit_code == 2 or isinstance(done.exception, Refused), done.output

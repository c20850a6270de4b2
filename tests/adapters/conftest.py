"""The adapters, importable as in the sandbox."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "adapters"))

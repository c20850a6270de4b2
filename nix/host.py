"""Print where this interpreter lies, if it can be the user's CPython 3.11 with pip."""

import importlib.util
import sys

if (
    sys.version_info[:2] != (3, 11)
    or sys.implementation.name != "cpython"
    or importlib.util.find_spec("pip") is None
):
    sys.exit(1)
sys.stdout.write(sys.executable + "\n")

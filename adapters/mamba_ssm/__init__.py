"""mamba-ssm can be imported, no more: it has no wheels, and no recipe computes with it."""

from typing import NoReturn


def absent(*_: object, **__: object) -> NoReturn:
    """What every function of the package is here."""
    raise NotImplementedError(
        "mamba-ssm: this stand-in can only be imported; no recipe has such a backbone"
    )

"""causal-conv1d can be imported, no more: it has no wheels, and no recipe computes with it."""

from typing import NoReturn


def _absent(*_: object, **__: object) -> NoReturn:
    raise NotImplementedError(
        "causal-conv1d: this stand-in can only be imported; no recipe has such a backbone"
    )


causal_conv1d_fn = causal_conv1d_update = _absent

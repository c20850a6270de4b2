"""An exponential moving average of weights, which validation and sampling use."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """Averages of parameters, in their order.

    The decay grows with the number n of updates: min(decay, (1 + n) / (10 + n)), so that early
    averages forget the random start.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        self.parameters = list(parameters)
        self.decay, self.updates = decay, 0
        self.shadow = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self) -> None:
        """Move each average towards its parameter; after each optimiser step."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(self.shadow, [p.detach() for p in self.parameters], 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The averages in the parameters' place, for as long as the context lasts."""
        kept = [p.detach().clone() for p in self.parameters]
        self._assign(self.shadow)
        try:
            yield
        finally:
            self._assign(kept)

    @torch.no_grad()
    def _assign(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)

    def state(self) -> dict[str, object]:
        """As a checkpoint holds it, under the names of the papers' checkpoints."""
        return {"decay": self.decay, "num_updates": self.updates, "shadow_params": self.shadow}

    def load(self, state: dict[str, object]) -> None:
        """Take the averages of a checkpoint; the decay stays this run's."""
        self.updates = state["num_updates"]
        for mine, theirs in zip(self.shadow, state["shadow_params"], strict=True):
            mine.copy_(theirs)

"""Duo's own distillation, with what keeps it from the recipe mended.

Beyond what training Duo needs: `Distillation.nll` does not take the labels it is given; loading
the teacher brings the teacher's EMA decay and its position in the data; and the teacher, copied
from a student in training mode where no validation came before, would run with dropout.
"""

from typing import Any

import algo
import train_duo
from torch import Tensor


def mend_nll() -> None:
    """Let `Distillation.nll` take the labels of its caller, which it has no use for."""
    distil = algo.Distillation.nll

    def nll(
        self: Any,
        x0: Tensor,
        labels: Tensor | None,
        output_tokens: Tensor | None,
        current_accumulation_step: int | None = None,
        train_mode: bool = False,
    ) -> Tensor:
        assert labels is None  # text has none
        return distil(self, x0, output_tokens, current_accumulation_step, train_mode)

    algo.Distillation.nll = nll


def mend_start() -> None:
    """Of a teacher take the weights, raw and averaged, alone."""
    load = algo.Distillation.load_from_checkpoint

    def from_teacher(*arguments: Any, **named: Any) -> Any:
        model = load(*arguments, **named)
        model.ema.decay = model.config.training.ema
        model.fast_forward_epochs = model.fast_forward_batches = None
        return model

    algo.Distillation.load_from_checkpoint = from_teacher


def mend_teacher() -> None:
    """Keep the teacher without dropout, whatever its student did when it was copied."""
    logits = algo.Distillation._teacher_logits

    def without_dropout(self: Any, xt: Tensor, sigma: Tensor) -> Tensor:
        if self.teacher is None:
            self.teacher = algo.copy.deepcopy(self.backbone)
        self.teacher.eval()
        return logits(self, xt, sigma)

    algo.Distillation._teacher_logits = without_dropout


if __name__ == "__main__":
    import __main__

    train_duo.mend_table()
    mend_nll()
    mend_start()
    mend_teacher()
    train_duo.run(__main__)

"""Duo's own trainer, with what keeps the pinned commit from training mended.

Its trainer hands labels to `nll`, between the tokens in and out, which `DUO` does not take; and
where `DUO` hands on to the loss after its curriculum, the arguments shift by one, so that the
accumulation step is lost. Its table of the curriculum's operator is looked for where the
recipe says, and is put there.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import algo
import duo_integral
from torch import Tensor

SOURCE = Path(str(algo.__file__)).parent


def mend_nll() -> None:
    """Give `DUO.nll` the arguments its caller and its parent have."""
    in_curriculum = algo.DUO.nll

    def nll(
        self: Any,
        x0: Tensor,
        labels: Tensor | None,
        output_tokens: Tensor | None,
        current_accumulation_step: int | None = None,
        train_mode: bool = False,
    ) -> Tensor:
        if self.global_step > self.curriculum_end or not train_mode:
            return super(algo.DUO, self).nll(
                x0, labels, output_tokens, current_accumulation_step, train_mode
            )
        return in_curriculum(self, x0, output_tokens, current_accumulation_step, train_mode)

    algo.DUO.nll = nll


def mend_table() -> None:
    """Have the table of the curriculum's operator there before a model reads it."""
    start = algo.DUO_BASE.__init__

    def init(self: Any, config: Any, tokenizer: Any) -> None:
        curriculum = config.algo.get("curriculum")
        if curriculum is not None:
            path = Path(curriculum.integral_cache_path)
            duo_integral.provide(path, tokenizer.vocab_size, SOURCE / "integral")
        start(self, config, tokenizer)

    algo.DUO_BASE.__init__ = init


def run(main: ModuleType) -> None:
    """The upstream's main program, in this one's place: Hydra and Lightning look at it there.

    Lightning starts further processes by this program's own command line, mended like the first.
    """
    entry = SOURCE / "main.py"
    exec(compile(entry.read_bytes(), str(entry), "exec"), vars(main))


if __name__ == "__main__":
    import __main__

    mend_table()
    mend_nll()
    run(__main__)

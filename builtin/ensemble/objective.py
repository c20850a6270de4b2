"""What a microbatch gives a gradient of: the student, its teachers and the pooled loss."""

import torch
from torch import Tensor, nn

from ensemble.loss import Head, pooled
from ensemble.model import Model
from ensemble.settings import Settings
from ensemble.teachers import Ensemble


class Objective(nn.Module):
    """The summed loss of a microbatch; only the student's weights are its parameters."""

    def __init__(self, settings: Settings, model: Model, ensemble: Ensemble) -> None:
        super().__init__()
        self.model = model
        self.settings, self.ensemble = settings["distillation"], ensemble
        # In a list, so that the compiled model is not a second submodule.
        self.states = [torch.compile(model) if settings["device"]["compile"] else model]
        self.bf16 = settings["device"]["precision"] == "bf16"

    def forward(self, tokens: Tensor, labels: Tensor, valid: Tensor) -> tuple[Tensor, ...]:
        """The loss and its two cross-entropies, each summed over the targets that count.

        All three are (rows, positions); `valid` says which targets count.
        """
        heads = self.ensemble.heads(tokens, valid)
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=self.bf16):
            states = self.states[0](tokens)[valid]
        self.ensemble.wait(heads)
        how = self.settings
        head = Head(states, self.model.embedding.weight)
        return pooled(head, labels[valid], heads, how["pool"] or "geo", how["weight"], how["rows"])

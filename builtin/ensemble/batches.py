"""Samples as tensors."""

import numpy as np
import torch
from torch import Tensor

from ensemble.windows import Counts, Windows


def collate(windows: Windows, samples: Counts, kept: Counts, bos: int) -> tuple[Tensor, ...]:
    """Inputs, labels and which of them count, each (samples, the longest's targets).

    A row's input is BOS and its targets but the last; what stands behind does not count.
    """
    width = max(1, int(kept.max()))  # a process with no sample left has nothing that counts
    inputs = np.full((len(samples), width + 1), bos, np.int64)
    for row, (sample, length) in enumerate(zip(samples.tolist(), kept.tolist(), strict=True)):
        inputs[row, 1 : length + 1] = windows.tokens(sample, length)
    valid = np.arange(width) < kept[:, None]
    return (
        torch.from_numpy(inputs[:, :-1].copy()),
        torch.from_numpy(inputs[:, 1:].copy()),
        torch.from_numpy(valid),
    )

"""The table that Duo's curriculum reads: how often an argmax of Gaussians keeps its token.

Over K tokens and a signal-to-noise ratio exp(-gamma) of the blurred one-hot row,

    p(gamma) = E_z Phi(z + s)^(K - 1),   s = exp(-gamma / 2),   z ~ N(0, 1)

(Sahoo et al. 2025, "The Diffusion Duality", arXiv 2506.10892, equation 10). The upstream has it
for two tokenizers, at 100 000 values of gamma from -5 to -1; here it is for any vocabulary, in
that layout.
"""

import math
import os
import pickle
from pathlib import Path

import torch

GAMMAS = (-5.0, -1.0)
POINTS = 100_000
_CHUNK = 4096
# The integrand of x = z + s is analytic and dies outside of this, so that plain sums converge
# faster than any power of the step: errors are of float64's rounding.
_X = torch.linspace(-10.0, 22.0, 641, dtype=torch.float64)


def table(vocabulary: int) -> dict[str, object]:
    """p and the upstream's gradient table (100 000,), float64, as its pickles hold them."""
    gammas = torch.linspace(*GAMMAS, POINTS, dtype=torch.float64)
    step = (_X[1] - _X[0]) / math.sqrt(2 * math.pi)
    others_below = step * torch.exp((vocabulary - 1) * torch.special.log_ndtr(_X))  # (X,)
    p, gradient = [], []
    for part in gammas.split(_CHUNK):
        signal = torch.exp(-part / 2)[:, None]  # (chunk, 1)
        away = _X - signal  # (chunk, X)
        density = torch.exp(-0.5 * away**2)
        p.append(density @ others_below)
        gradient.append((-0.5 * signal * away * density) @ others_below)
    return {
        "vocab_size": vocabulary,
        "gamma_min": GAMMAS[0],
        "gamma_max": GAMMAS[1],
        "num_points": POINTS,
        "pt": torch.cat(p).numpy(),
        "grad_pt": torch.cat(gradient).numpy(),
    }


def provide(path: Path, vocabulary: int, shipped: Path) -> None:
    """Have the table at `path`: the upstream's own of this vocabulary in the folder `shipped`.

    Where it has none, it is computed. Several processes may do so at once.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(_shipped(vocabulary, shipped) or pickle.dumps(table(vocabulary)))
    part.rename(path)


def _shipped(vocabulary: int, folder: Path) -> bytes | None:
    for file in sorted(folder.glob("*.pkl")):
        data = file.read_bytes()
        if pickle.loads(data)["vocab_size"] == vocabulary:
            return data
    return None

"""Train a diffusion language model: `python main.py OVERRIDES`, as the papers' trainers.

The configuration (`configs/`, Hydra) takes the overrides of the MDLM, Duo, FLM and CANDI
trainers; `algo` says which algorithm it is (MDLM's own trainer has no `algo`: it is the default).
"""

import sys

import hydra
from omegaconf import DictConfig

from start import run


@hydra.main(version_base=None, config_path="configs", config_name="config")
def main(config: DictConfig) -> None:
    """Train or sample as configured."""
    sys.exit(run(config))


if __name__ == "__main__":
    main()

"""Distil a masked diffusion language model: `python rounds.py OVERRIDES`.

The configuration (`configs_rounds/`, Hydra) takes the overrides of the SDTT and Di4C trainers;
`is_di4c` says which of the two it is.
"""

import sys

import hydra
from omegaconf import DictConfig, open_dict

from start import run


@hydra.main(version_base=None, config_path="configs_rounds", config_name="config")
def main(config: DictConfig) -> None:
    """Train or sample as configured."""
    with open_dict(config):
        config.algo = {"name": "di4c" if config.is_di4c else "sdtt"}
        if config.is_di4c:
            config.checkpointing.kept = None  # it has no rounds
    sys.exit(run(config))


if __name__ == "__main__":
    main()

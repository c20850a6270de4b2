"""Train a causal language model, or distil one from four: `python ensemble/main.py OVERRIDES`.

The configuration is `configs/config.yaml` (Hydra); docs/ensemble.md says what each part is for.
"""

import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA: repeatable products

import hydra
from omegaconf import DictConfig, OmegaConf

from ensemble.start import run


@hydra.main(version_base=None, config_path="configs", config_name="config")
def main(config: DictConfig) -> None:
    """Train as configured."""
    sys.exit(run(OmegaConf.to_container(config, resolve=True)))


if __name__ == "__main__":
    main()

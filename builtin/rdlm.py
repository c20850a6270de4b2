"""Train RDLM: `python rdlm.py OVERRIDES`, with the override names of its trainer.

Its configuration (`configs_rdlm/`, Hydra) names what every trainer here needs in its own way;
`common` says which is which.
"""

import sys

import hydra
from omegaconf import DictConfig, OmegaConf

from start import run


def common(config: DictConfig) -> DictConfig:
    """The configuration in the names that the shared parts read."""
    batch, devices = config.training.batch_size, max(1, config.ngpus)
    per_device = batch // (devices * config.training.accum)
    every = config.training.snapshot_freq_for_preemption
    names = {
        "algo": {"name": "rdlm"},
        "data": {"wrap": True},
        "loader": {
            "global_batch_size": batch,
            "batch_size": per_device,
            "eval_batch_size": per_device,
        },
        "trainer": {
            "accelerator": config.accelerator,
            "threads": config.threads,
            "precision": config.precision,
            "devices": devices,
            "num_nodes": 1,
            "accumulate_grad_batches": config.training.accum,
            "max_steps": config.training.n_iters,
            "gradient_clip_val": config.optim.grad_clip,
            "log_every_n_steps": config.training.log_freq,
            "val_check_interval": config.training.eval_freq,
        },
        "lr_scheduler": {"num_warmup_steps": config.optim.warmup},
        "callbacks": {"checkpoint_every_n_steps": {"every_n_train_steps": every}},
    }
    OmegaConf.set_struct(config, False)
    return OmegaConf.merge(names, config)


@hydra.main(version_base=None, config_path="configs_rdlm", config_name="config")
def main(config: DictConfig) -> None:
    """Train or sample as configured."""
    sys.exit(run(common(config)))


if __name__ == "__main__":
    main()

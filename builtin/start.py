"""From a configuration to a finished training: what the entry points share."""

import os
import sys
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA: repeatable products

import torch
from omegaconf import DictConfig

import vocabulary
import world
from algorithms import build
from checkpoint import seed_all
from data import Rows
from loop import Trainer

PRECISIONS = {
    "bf16": torch.bfloat16,
    "bf16-mixed": torch.bfloat16,
    "32": torch.float32,
    "32-true": torch.float32,
}
# The split that serves as held-out rows, where it is not `validation`.
HELD_OUT = {"lm1b": "test"}


def sets(config: DictConfig) -> tuple[Rows, Rows]:
    """The training and the held-out rows, under the names the papers' trainers look for."""
    data, length = config.data, config.model.length
    if not data.wrap:
        sys.exit("data.wrap=false: only packed (wrapped) sets are read")
    held_out = HELD_OUT.get(data.valid, "validation")
    names = (f"{data.train}_train", f"{data.valid}_{held_out}")
    train, valid = (Path(data.cache_dir, f"{name}_bs{length}_wrapped.dat") for name in names)
    return Rows(train, length), Rows(valid, length)


def check_batch(config: DictConfig) -> None:
    """End the program unless devices, accumulation and batch sizes agree."""
    trainer, loader = config.trainer, config.loader
    parts = (trainer.devices, trainer.num_nodes, trainer.accumulate_grad_batches, loader.batch_size)
    devices, nodes, accumulation, batch = parts
    if devices * nodes * accumulation * batch != loader.global_batch_size:
        sys.exit(
            f"global batch {loader.global_batch_size} is not {devices} devices x {nodes} nodes x "
            f"{accumulation} accumulated x {batch} rows"
        )


def train(config: DictConfig) -> int:
    """Train, or evaluate, as configured; the exit status, 128 + n when signal n stopped it."""
    if config.mode not in ("train", "ppl_eval"):
        sys.exit(f"mode={config.mode}: train or ppl_eval")
    check_batch(config)
    precision = PRECISIONS.get(str(config.trainer.precision))
    if precision is None:
        sys.exit(f"trainer.precision={config.trainer.precision}: one of {', '.join(PRECISIONS)}")
    here = world.enter(config.trainer.accelerator, config.trainer.devices, config.trainer.num_nodes)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads any
    torch.set_num_threads(config.trainer.threads)
    seed_all(config.seed)  # the same weights in every process
    tokens = vocabulary.read(Path(config.data.tokenizer_name_or_path))
    algorithm = build(config, tokens, precision)
    seed_all(config.seed + 1_000_003 * here.rank)  # and other noise in each
    trainer = Trainer(config, algorithm, sets(config), here)
    if config.mode == "train":
        status = trainer.run()
    else:
        status = trainer.evaluate(Path(config.eval.checkpoint_path))
    world.leave(here)
    return status

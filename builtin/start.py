"""From a configuration to a trained model or its samples: what the entry points share."""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA: repeatable products

import torch
from omegaconf import DictConfig, OmegaConf

import teacher
import vocabulary
import world
from algorithms import Algorithm, build
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
    if (cut := OmegaConf.select(config, "data_preprocess.seq_len")) not in (None, length):
        sys.exit(f"data_preprocess.seq_len={cut} is not model.length={length}")
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


def algorithm(config: DictConfig) -> Algorithm:
    """The configured algorithm, with new weights that follow from the seed."""
    precision = PRECISIONS.get(str(config.trainer.precision))
    if precision is None:
        sys.exit(f"trainer.precision={config.trainer.precision}: one of {', '.join(PRECISIONS)}")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads any
    torch.set_num_threads(config.trainer.threads)
    seed_all(config.seed)
    tokens = vocabulary.read(Path(config.data.tokenizer_name_or_path))
    return build(config, tokens, precision)


def train(config: DictConfig) -> int:
    """Train, or measure a checkpoint; 128 + n when signal n stopped it."""
    check_batch(config)
    trainer = config.trainer
    here = world.enter(trainer.accelerator, trainer.devices, trainer.num_nodes)
    model = algorithm(config)  # the same in every process
    seed_all(config.seed + 1_000_003 * here.rank)  # and other noise in each
    training = Trainer(config, model, sets(config), here)
    if config.mode == "train":
        status = training.run()
    else:
        status = training.evaluate(Path(config.eval.checkpoint_path))
    world.leave(here)
    return status


def sample(config: DictConfig) -> int:
    """Print rows that a trained model draws, a JSON object a line: ids and text.

    The weights are a checkpoint's averages; the draws follow from the seed.
    """
    from tokenizers import Tokenizer

    here = world.enter(config.trainer.accelerator, 1, 1)
    model = algorithm(config).to(here.device).eval()
    path = config.eval.checkpoint_path or config.checkpointing.resume_ckpt_path
    teacher.load(model.backbone, path, averaged=True)
    seed_all(config.seed)
    folder = Path(config.data.tokenizer_name_or_path)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    left, most = config.sampling.num_samples, max(1, config.loader.eval_batch_size)
    while left > 0:  # as many at a time as are measured at a time
        count = min(left, most)
        for ids in model.sample(count, config.sampling.steps).tolist():
            text = tokenizer.decode(ids, skip_special_tokens=True)
            sys.stdout.write(json.dumps({"ids": ids, "text": text}) + "\n")
        left -= count
    return 0


def judge(config: DictConfig) -> int:
    """Print how a causal model finds the rows of a file of samples, as one JSON object.

    `generative_perplexity` is the model's, of every token after a row's first; `entropy` is the
    mean over rows of that of a row's own token frequencies, in nats: text that repeats itself has
    a low perplexity, but a low entropy too.
    """
    here = world.enter(config.trainer.accelerator, 1, 1)
    model = algorithm(config).to(here.device).eval()
    teacher.load(model.backbone, config.eval.checkpoint_path, averaged=True)
    lines = Path(config.eval.generated_samples_path).read_text(encoding="utf-8").splitlines()
    rows = torch.tensor([json.loads(line)["ids"] for line in lines], device=here.device)
    with torch.no_grad():
        parts = [model.measure(part, torch.zeros(len(part)))[:, 1:] for part in rows.split(16)]
    shares = [torch.unique(row, return_counts=True)[1].double() / len(row) for row in rows]
    found = {
        "rows": len(rows),
        "generative_perplexity": torch.cat(parts).double().mean().exp().item(),
        "entropy": -sum((share * share.log()).sum().item() for share in shares) / len(rows),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


# Under the names of the papers' trainers, which have two for sampling.
MODES = {
    "train": train,
    "ppl_eval": train,
    "sample": sample,
    "sample_eval": sample,
    "gen_ppl_eval": judge,
}


def run(config: DictConfig) -> int:
    """Do what `mode` says; the exit status."""
    if config.mode not in MODES:
        sys.exit(f"mode={config.mode}: one of {', '.join(MODES)}")
    return MODES[config.mode](config)

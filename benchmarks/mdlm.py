"""Training steps of the built-in MDLM beside the authors' code: equal size, batch and threads.

Both take the loss on the same rows, its gradient, the clipping, an AdamW step and the averages'
update, in one process on the CPU; the authors' attention and rotary kernels, which need a GPU,
are torch's own. Wants HARNESS_MIRRORS: a folder of git directories `owner+name/repo`.
"""

import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).parents[1]
sys.path[:0] = [str(SOURCE / "builtin"), str(SOURCE / "tests" / "builtin")]

import torch  # noqa: E402
import upstream  # noqa: E402
from algorithms.mdlm import MDLM  # noqa: E402
from ema import Average  # noqa: E402
from hydra import compose, initialize_config_dir  # noqa: E402
from omegaconf import DictConfig, open_dict  # noqa: E402
from side_by_side import best, tell  # noqa: E402
from vocabulary import Vocabulary  # noqa: E402

THREADS, BATCH, STEPS, ROUNDS = 2, 16, 4, 5
SIZES = {"tiny": (555, 128), "small, 3 blocks": (30_521, 128)}
Step = Callable[[], None]


def configured(size: str, length: int) -> DictConfig:
    """The built-in configuration of a model of this size."""
    name, _, blocks = size.partition(", ")
    overrides = [f"model={name}", f"model.length={length}", "model.dropout=0"]
    if blocks:
        overrides.append(f"model.n_blocks={blocks.split()[0]}")
    with initialize_config_dir(str(SOURCE / "builtin" / "configs"), version_base=None):
        return compose("config", overrides)


def stepping(
    parameters: list[torch.nn.Parameter], loss: Callable[[], torch.Tensor], ema: Step
) -> Step:
    """A few optimiser steps on what `loss` gives."""
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0)

    def steps() -> None:
        for _ in range(STEPS):
            loss().backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            ema()

    return steps


def ours(config: DictConfig, words: int, tokens: torch.Tensor) -> tuple[MDLM, Step]:
    """The built-in model and its steps."""
    model = MDLM(config, Vocabulary(words, None, None), torch.float32).train()
    parameters = list(model.backbone.parameters())
    average = Average(parameters, 0.9999)

    def loss() -> torch.Tensor:
        uniform = (torch.rand(BATCH) + torch.arange(BATCH)) / BATCH
        return model(tokens, uniform).mean()

    return model, stepping(parameters, loss, average.update)


def theirs(config: DictConfig, words: int, tokens: torch.Tensor, tree: Path, state: dict) -> Step:
    """The authors' model with the same weights, and its steps."""
    names = ("diffusion", "models.dit", "noise_schedule", "models.ema")
    diffusion, dit, noise, ema = upstream.imported(tree, *names)
    with open_dict(config):
        config.model.scale_by_sigma = True
    backbone = dit.DIT(config, vocab_size=words + 1)
    backbone.load_state_dict(state)
    model = diffusion.Diffusion.__new__(diffusion.Diffusion)
    torch.nn.Module.__init__(model)
    model.backbone, model.noise = backbone, noise.LogLinearNoise()
    fields = {
        "config": config,
        "mask_index": words,
        "parameterization": "subs",
        "antithetic_sampling": True,
        "importance_sampling": False,
        "change_of_variables": False,
        "sampling_eps": 1e-3,
        "time_conditioning": False,
        "T": 0,
        "neg_infinity": -1e6,
    }
    for name, value in fields.items():
        object.__setattr__(model, name, value)
    model.train()
    parameters = list(itertools.chain(backbone.parameters(), model.noise.parameters()))
    average = ema.ExponentialMovingAverage(parameters, decay=0.9999)
    mask = torch.ones_like(tokens)

    def loss() -> torch.Tensor:
        nll = model._forward_pass_diffusion(tokens) * mask
        return nll.sum() / mask.sum()

    return stepping(parameters, loss, lambda: average.update(parameters))


def main() -> None:
    """Compare at each size."""
    mirrors = os.environ.get("HARNESS_MIRRORS")
    if not mirrors:
        sys.exit("HARNESS_MIRRORS names no folder of upstream mirrors")
    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as folder:
        tree = upstream.export(Path(mirrors), "kuleshov-group+mdlm", Path(folder))
        for size, (words, length) in SIZES.items():
            torch.manual_seed(0)
            config = configured(size, length)
            tokens = torch.randint(0, words, (BATCH, length))
            model, own = ours(config, words, tokens)
            other = theirs(config, words, tokens, tree, model.backbone.state_dict())
            seconds = best({"the authors' MDLM": other, "built-in MDLM": own}, ROUNDS)
            total = BATCH * length * STEPS
            sys.stdout.write(f"{size}: {words} tokens, batch {BATCH} x {length}\n")
            for name, value in seconds.items():
                sys.stdout.write(f"{name:44} {total / value:9.0f} tokens/s\n")
            tell(seconds, ("the authors' MDLM", "built-in MDLM"))


if __name__ == "__main__":
    main()

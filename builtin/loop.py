"""The training loop: what one optimiser step is, and what happens between steps."""

import math
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import checkpoint
from algorithms import Algorithm
from data import Order, Rows
from ema import Average
from metrics import unigram_perplexity, validation
from records import Metrics, Progress
from world import World

HUGE = 700.0  # nats, whose perplexity a float cannot hold


class Trainer:
    """A model in training: weights, optimiser, averages, position in the data, and files."""

    def __init__(
        self, config: DictConfig, algorithm: Algorithm, sets: tuple[Rows, Rows], world: World
    ) -> None:
        self.config, self.world = config, world
        algorithm.load_teacher()
        self.algorithm = algorithm.to(world.device)
        self.training, self.held_out = sets
        parameters = list(algorithm.backbone.parameters())
        self.optimizer = torch.optim.AdamW(
            parameters,
            lr=config.optim.lr,
            betas=(config.optim.beta1, config.optim.beta2),
            eps=config.optim.eps,
            weight_decay=config.optim.weight_decay,
        )
        self.average = Average(parameters, config.training.ema)
        self.order = Order(len(self.training), config.loader.global_batch_size, config.seed)
        self.step, self.losses = 0, []  # losses since the last record
        self.parallel: nn.Module = algorithm
        if world.size > 1:
            self.parallel = DistributedDataParallel(algorithm, forward_sync_buffers=False)
        self.folder = Path(config.checkpointing.save_dir)
        self.last = self.folder / "checkpoints" / "last.ckpt"
        self.stopped_by = 0

    def run(self) -> int:
        """Train to the last step. The exit status: 0, or 128 + the signal that stopped it."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        resume = Path(self.config.checkpointing.resume_ckpt_path)
        if self.config.checkpointing.resume_from_ckpt and resume.exists():
            self.load(resume)
        steps, global_batch = self.config.trainer.max_steps, self.config.loader.global_batch_size
        self.unigram = unigram_perplexity(self.training, self.held_out, self.algorithm.words)
        if self.world.first:
            self.metrics = Metrics(self.folder / "metrics.jsonl", self.step)
            tokens = global_batch * self.training.length
            progress = Progress(self.folder / "progress.json", self.step, steps, tokens)
        self.algorithm.train()
        if self.step == 0:
            self.validate()
        while self.step < steps:
            loss = self.update()
            if self.world.first:
                progress.show(self.step, loss)
            if self._due(self.config.trainer.log_every_n_steps):
                self.record()
            if self._due(self.config.trainer.val_check_interval):
                self.validate()
            stopped = int(max(self.world.gathered(self.stopped_by)))
            if stopped or self._due(self.every) or self._kept():
                self.save()
            if stopped and self.step < steps:
                return 128 + stopped
        return 0

    def evaluate(self, path: Path) -> int:
        """Measure a checkpoint's averaged weights on the held-out rows; the exit status.

        It may be one of another number of devices, another batch or another seed.
        """
        self.take(checkpoint.load(path))
        self.unigram = unigram_perplexity(self.training, self.held_out, self.algorithm.words)
        if self.world.first:
            self.metrics = Metrics(self.folder / "metrics.jsonl", 0)
        self.validate()
        return 0

    @property
    def every(self) -> int:
        """Steps from checkpoint to checkpoint."""
        return self.config.callbacks.checkpoint_every_n_steps.every_n_train_steps

    def update(self) -> float:
        """One optimiser step over a global batch; its mean loss."""
        config, world = self.config, self.world
        size, parts = config.loader.batch_size, config.trainer.accumulate_grad_batches
        rows = self.order.next()
        self.algorithm.begin(self.step, self.average)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(self.step)
        total = 0.0
        for part in range(parts):
            place, places = part * world.size + world.rank, parts * world.size
            tokens = world.rows(self.training.take(rows[place * size : (place + 1) * size]))
            # Each part gets times from all over: a loss may be a mean over what it masks in it.
            strata = torch.arange(size, device=world.device) * places + place
            uniform = (torch.rand(size, device=world.device) + strata) / len(rows)
            last = part == parts - 1 or world.size == 1
            with nullcontext() if last else self.parallel.no_sync():
                loss = self.parallel(tokens, uniform, self.step).mean() / parts
                loss.backward()
            total += loss.item()
        norm = self.clipped()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.average.update()
        self.step += 1
        loss = world.total(total)[0] / world.size
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise SystemExit(f"step {self.step}: loss {loss}, gradient norm {norm}: not finite")
        self.losses.append(loss)
        return loss

    def clipped(self) -> float:
        """Clip the gradient's norm, which is returned."""
        limit = self.config.trainer.gradient_clip_val
        return nn.utils.clip_grad_norm_(self.average.parameters, limit).item()

    def rate(self, step: int) -> float:
        """The learning rate of the update after `step` updates: constant after a warm-up."""
        warmup = self.config.lr_scheduler.num_warmup_steps
        return self.config.optim.lr * min(1.0, step / max(1, warmup))

    def record(self) -> None:
        """Write the mean loss since the last record."""
        if self.world.first:
            mean = math.fsum(self.losses) / len(self.losses)
            self.metrics.add(step=self.step, loss=mean, lr=self.rate(self.step - 1))
        self.losses = []

    def validate(self) -> None:
        """Write and print what the averaged weights make of held-out rows."""
        loader, batches = self.config.loader, self.config.trainer.limit_val_batches
        with self.average.applied():
            mean = validation(
                self.algorithm, self.held_out, loader.eval_batch_size, batches, self.world
            )
        if not self.world.first:
            return
        if self.algorithm.bounded:
            perplexity = math.exp(mean) if mean < HUGE else None
            found = {"validation_nll": mean, "validation_perplexity": perplexity}
            self.metrics.add(step=self.step, **found, unigram_perplexity=self.unigram)
            alone = f"(token frequencies alone: {self.unigram:.2f})"
            shown = "too large for a number" if perplexity is None else f"{perplexity:.2f}"
            sys.stdout.write(f"step {self.step}: validation perplexity {shown} {alone}\n")
        else:
            self.metrics.add(step=self.step, validation_loss=mean)
            sys.stdout.write(f"step {self.step}: validation loss {mean:.4f}\n")
        sys.stdout.flush()

    def save(self) -> None:
        """Publish the checkpoint of this step, and under the name of its own where it has one."""
        random_states = self.world.gathered(checkpoint.random_state())
        if not self.world.first:
            return
        backbone = self.algorithm.backbone.state_dict()
        content = {
            "state_dict": {f"backbone.{name}": value for name, value in backbone.items()},
            "ema": self.average.state(),
            "optimizer_states": [self.optimizer.state_dict()],
            "global_step": self.step,
            "epoch": self.order.epoch,
            "order": self.order.state(),
            "losses": self.losses,
            "random_states": random_states,
            "beside": self.algorithm.beside(),
            "hyper_parameters": {
                "algorithm": self.config.algo.name,
                "seed": self.config.seed,
                "shape": dict(vars(self.algorithm.backbone.shape)),
            },
        }
        if name := self._kept():
            checkpoint.save(self.folder / name, content)
        checkpoint.save(self.last, content)

    def load(self, path: Path) -> None:
        """Go on from a checkpoint."""
        content = checkpoint.load(path)
        states = content["random_states"]
        if len(states) != self.world.size:
            raise SystemExit(f"{path}: of {len(states)} processes, this run has {self.world.size}")
        self.take(content)
        self.optimizer.load_state_dict(content["optimizer_states"][0])
        self.order.load(content["order"])
        self.algorithm.load_beside(content["beside"])
        self.losses = list(content["losses"])
        checkpoint.set_random_state(states[self.world.rank])

    def take(self, content: dict[str, Any]) -> None:
        """Take a checkpoint's weights, their averages and its step."""
        weights = {
            name.removeprefix("backbone."): value for name, value in content["state_dict"].items()
        }
        self.algorithm.backbone.load_state_dict(weights)
        self.average.load(content["ema"])
        self.step = content["global_step"]

    def _kept(self) -> str | None:
        """The name under which this step's checkpoint stays, where it does."""
        kept = self.config.checkpointing.kept
        if kept is None or self.step % kept.every:
            return None
        return kept.name.format(step=self.step, count=self.step // kept.every)

    def _due(self, interval: int) -> bool:
        return self.step % interval == 0 or self.step == self.config.trainer.max_steps

    def _stop(self, number: int, frame: object) -> None:
        self.stopped_by = number

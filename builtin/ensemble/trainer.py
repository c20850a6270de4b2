"""The trainer: what an update is, and what happens between updates and between epochs."""

import math
import signal
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import checkpoint
from ensemble import mixture, state
from ensemble.batches import collate
from ensemble.files import Board, Progress, peak_memory, publish_json, sha256_file
from ensemble.metrics import Metrics
from ensemble.mixture import Plan
from ensemble.model import Model, groups
from ensemble.objective import Objective
from ensemble.settings import Refusal, Settings
from ensemble.stores import DOMAINS
from ensemble.teachers import Ensemble
from ensemble.validation import validate
from ensemble.windows import Counts, Windows
from world import World

Row = dict[str, Any]


@dataclass
class Committed:
    """How far training is, in whole updates; `losses` are those since the last record."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    examples: int = 0
    tokens: int = 0
    windows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DOMAINS, 0))
    epochs: list[Row] = field(default_factory=list)
    final: Row | None = None
    losses: list[list[float]] = field(default_factory=list)


class Trainer:
    """A model in training: weights, optimiser, position in the plan, and files."""

    def __init__(
        self,
        settings: Settings,
        world: World,
        model: Model,
        ensemble: Ensemble,
        plan: Plan,
        training: Windows,
        held_out: Windows,
        bos: int,
    ) -> None:
        self.settings, self.world, self.plan, self.bos = settings, world, plan, bos
        self.training, self.held_out = training, held_out
        self.model = model.to(world.device)
        objective = Objective(settings, self.model, ensemble)
        self.objective: nn.Module = objective
        if world.size > 1:
            self.objective = DistributedDataParallel(objective)
        how = settings["optim"]
        self.optimizer = torch.optim.AdamW(
            groups(self.model, how["weight_decay"]),
            lr=how["lr"],
            betas=(how["beta1"], how["beta2"]),
            eps=how["eps"],
        )
        self.committed = Committed()
        self.planned = sum(plan.updates)
        self.folder = Path(settings["output"])
        self.last = self.folder / "checkpoints" / "last.ckpt"
        self.stopped_by = 0
        self.metrics: Metrics | None = None

    @property
    def steps(self) -> int:
        """The updates of this run: the plan's, or the smoke cap's."""
        budget = self.settings["smoke_updates"]
        return self.planned if budget is None else min(budget, self.planned)

    def run(self) -> int:
        """Train to the end. The exit status: 0, or 128 + the signal that stopped it."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        rows = 0
        if self.settings["launch"]["resume"] and self.last.exists():
            rows = self.load(self.last)
        now = self.committed
        if self.world.first:
            self.metrics = Metrics(self.folder / "metrics.jsonl", rows)
            self.board = Board(Path(self.settings["log"]), now.step)
            show = self.settings["tracking"]["show"]
            path = self.folder / "progress.json"
            self.progress = Progress(path, self.steps, now.step, show)
        status = self._train()
        if self.world.first:
            self.board.close()
            self.progress.show(status, now.step, None)
            self.summarise(status)
        return 128 + self.stopped_by if status == "interrupted" else 0

    def _train(self) -> str:
        """The loop; how it ended."""
        now, budget = self.committed, self.settings["smoke_updates"]
        while now.epoch < len(self.plan.epochs):
            if now.batch == self.plan.updates[now.epoch]:
                self.finish_epoch()
            elif now.step == budget:
                self.finish_smoke()
                break
            else:
                loss, tokens = self.update()
                if self.world.first:
                    self.progress.show("running", now.step, loss, tokens)
                self.record()
            if self.stopped() and not self.ended():
                self.save()
                return "interrupted"
            if now.step % self.settings["checkpoint_every"] == 0 and now.batch:
                self.save()
        return "complete" if budget is None else "smoke_complete"

    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.committed.epoch == len(self.plan.epochs) or self.committed.final is not None

    def stopped(self) -> bool:
        """Whether a signal came, to any process."""
        self.stopped_by = int(max(self.world.gathered(self.stopped_by)))
        return self.stopped_by > 0

    def update(self) -> tuple[float, int]:
        """One optimiser step over a batch of the plan; its mean loss and its targets."""
        now, world = self.committed, self.world
        epoch = self.plan.epochs[now.epoch]
        samples, kept = mixture.batch_of(epoch, now.batch, self.plan.batch)
        targets = int(kept.sum())
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(now.step)
        sums = [0.0, 0.0, 0.0]
        parts = self._parts(samples, kept)
        for number, (some, lengths) in enumerate(parts, 1):
            tensors = collate(self.training, some, lengths, self.bos)
            tokens, labels, valid = (world.rows(one) for one in tensors)
            together = number == len(parts) or world.size == 1
            with nullcontext() if together else self.objective.no_sync():
                found = self.objective(tokens, labels, valid)
                # The processes' gradients are averaged, and shall be summed.
                (found[0] * (world.size / targets)).backward()
            sums = [total + one.item() for total, one in zip(sums, found, strict=True)]
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings["optim"]["clip"])
        losses = [total / targets for total in world.total(*sums)]
        if not math.isfinite(losses[0]) or not torch.isfinite(norm):
            where = f"update {now.step + 1}"
            raise FloatingPointError(f"{where}: loss {losses[0]}, gradient norm {norm}: not finite")
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._commit(samples, targets, [*losses, norm.item()])
        return losses[0], targets

    def _parts(self, samples: Counts, kept: Counts) -> list[tuple[Counts, Counts]]:
        """This process's microbatches of a batch, as many as every other process's.

        One that has no sample left is a sample of which nothing counts.
        """
        size, micro = self.world.size, self.settings["batch"]["microbatch"]
        mine = slice(self.world.rank, None, size)
        some, lengths = samples[mine], kept[mine]
        starts = range(0, -(-len(samples) // size), micro)
        parts = [(some[at : at + micro], lengths[at : at + micro]) for at in starts]
        return [part if len(part[0]) else (samples[:1], kept[:1] * 0 + 0) for part in parts]

    def _commit(self, samples: Counts, targets: int, losses: list[float]) -> None:
        now = self.committed
        now.step, now.batch = now.step + 1, now.batch + 1
        now.examples, now.tokens = now.examples + len(samples), now.tokens + targets
        for number, name in enumerate(DOMAINS):
            now.windows[name] += int((self.training.store[samples] == number).sum())
        now.losses.append(losses)

    def rate(self, step: int) -> float:
        """The learning rate of the update after `step` updates: warm-up, then cosine to a floor."""
        how = self.settings["optim"]
        if step < how["warmup"]:
            return how["lr"] * (step + 1) / how["warmup"]
        done = (step - how["warmup"]) / max(1, self.planned - how["warmup"])
        return how["lr"] * (how["floor"] + (1 - how["floor"]) * (1 + math.cos(math.pi * done)) / 2)

    def record(self) -> None:
        """Write the means since the last record, where one is due."""
        now = self.committed
        if now.step % self.settings["tracking"]["log_every"] and now.step != self.steps:
            return
        names = ("loss", "cross_entropy", "teacher_cross_entropy", "gradient_norm")
        means = [math.fsum(column) / len(now.losses) for column in zip(*now.losses, strict=True)]
        row = dict(zip(names, means, strict=True))
        if self.settings["stage"] == "lm":
            del row["teacher_cross_entropy"]
        self._write({**row, "lr": self.rate(now.step - 1)})
        now.losses = []

    def _write(self, row: Row) -> None:
        if self.metrics is not None:
            self.metrics.add({"step": self.committed.step, **row})
            self.board.add(self.committed.step, row)

    def measure(self) -> Row:
        """Both domains' measures now, written down."""
        if self.world.first:
            self.progress.show("validating", self.committed.step, None)
        how = self.settings
        batch, rows = how["batch"]["microbatch"], how["distillation"]["rows"]
        found = validate(self.model, self.held_out, self.bos, batch, rows, self.world)
        self._write(found)
        return {"step": self.committed.step, **found}

    def finish_epoch(self) -> None:
        """Validate, and keep the checkpoint under the names it has earned."""
        now = self.committed
        result = {"epoch": now.epoch + 1, **self.measure()}
        now.epochs.append(result)
        now.epoch, now.batch = now.epoch + 1, 0
        best = state.best_of(now.epochs) == now.epoch
        self.save(f"epoch-{now.epoch}", *["best-lm"] * best)

    def finish_smoke(self) -> None:
        """Validate at the cap of a smoke run, within an epoch."""
        if self.committed.final is None:
            self.committed.final = self.measure()
            self.save()

    def save(self, *roles: str) -> None:
        """Publish the checkpoint under its roles, and as the last one, from which to go on."""
        if self.world.first:
            content = state.seal(self.content())
            for role in roles:
                checkpoint.save(self.last.with_name(f"{role}.ckpt"), content)
            checkpoint.save(self.last, content)

    def content(self) -> state.Content:
        """All that training goes on from."""
        now = self.committed
        done = len(self.plan.epochs[now.epoch].order) if now.epoch < len(self.plan.epochs) else 0
        assert self.metrics is not None  # only the first process saves
        return {
            "format": state.FORMAT,
            "state_dict": dict(self.model.state_dict()),
            "optimizer_states": [self.optimizer.state_dict()],
            "global_step": now.step,
            "epoch": now.epoch,
            "cursor": {
                "epoch": now.epoch,
                "batch": now.batch,
                "offset": min(now.batch * self.plan.batch, done),
            },
            "totals": {
                "examples": now.examples,
                "tokens": now.tokens,
                "windows": dict(now.windows),
            },
            "epochs": now.epochs,
            "best": state.best_of(now.epochs),
            "final": now.final,
            "losses": now.losses,
            "metrics_rows": self.metrics.rows,
            "plan": {"sha256": self.plan.sha256, "updates": self.plan.updates},
            "config": self.settings,
            "config_sha256": state.of_settings(self.settings),
            "random_state": checkpoint.random_state(),
        }

    def load(self, path: Path) -> int:
        """Go on from a checkpoint; the rows of metrics it comes with."""
        content = state.load(path)
        state.check(path, content, self.settings, self.plan, self.model.state_dict())
        self.model.load_state_dict(content["state_dict"])
        self.optimizer.load_state_dict(content["optimizer_states"][0])
        checkpoint.set_random_state(content["random_state"])
        self.committed = Committed(
            step=content["global_step"],
            epoch=content["epoch"],
            batch=content["cursor"]["batch"],
            epochs=content["epochs"],
            final=content["final"],
            losses=content["losses"],
            **content["totals"],
        )
        return int(content["metrics_rows"])

    def summarise(self, status: str) -> None:
        """Write `summary.json`: how it ended, each role's checkpoint, the peak memory."""
        now = self.committed
        files = sorted(self.last.parent.glob("*.ckpt"))
        roles = {
            path.stem: {"sha256": sha256_file(path), "size": path.stat().st_size} for path in files
        }
        record = {
            "status": status,
            "step": now.step,
            "epochs": now.epochs,
            "final": now.final,
            "best_epoch": state.best_of(now.epochs),
            "checkpoints": roles,
            "peak_memory_bytes": peak_memory(),
        }
        publish_json(self.folder / "summary.json", record)

    def fail(self, error: BaseException) -> None:
        """Write `failure.json`: what happened, and where it is safe to go on from."""
        record = {
            "type": type(error).__name__,
            "message": str(error),
            "last_committed_step": self.committed.step,
            "safe_checkpoint": str(self.last) if self.last.exists() else None,
        }
        publish_json(self.folder / "failure.json", record)

    def _stop(self, number: int, frame: object) -> None:
        self.stopped_by = number


def check_schedule(settings: Settings, plan: Plan) -> None:
    """Raises Refusal where the warm-up is longer than the training."""
    warmup, planned = settings["optim"]["warmup"], sum(plan.updates)
    if warmup >= planned:
        raise Refusal(f"optim.warmup={warmup}: the plan has {planned} updates")

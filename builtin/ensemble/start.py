"""From settings to a trained model: everything is checked before the first update."""

import sys
from pathlib import Path
from typing import Any

import torch

import world
from checkpoint import seed_all
from ensemble import mixture, stores, teachers, windows
from ensemble.files import publish_json
from ensemble.mixture import Plan
from ensemble.model import Model
from ensemble.settings import MEMBERS, Refusal, Settings, check
from ensemble.stores import Stores
from ensemble.teachers import Ensemble
from ensemble.trainer import Trainer, check_schedule
from ensemble.windows import Windows


def run(settings: Any) -> int:
    """Train as `settings` say; the exit status. What is refused is one line on stderr."""
    try:
        check(settings)
        launch = settings["launch"]
        here = world.enter(settings["device"]["accelerator"], launch["devices"], launch["nodes"])
        status = train(settings, here)
        world.leave(here)
        return status
    except Refusal as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 2


def train(settings: Settings, here: world.World) -> int:
    """Train in this process; the exit status."""
    trainer = prepared(settings, here)
    failure = trainer.folder / "failure.json"
    failure.unlink(missing_ok=True)
    try:
        return trainer.run()
    except Exception as error:
        if here.first:
            trainer.fail(error)
        raise


def prepared(settings: Settings, here: world.World) -> Trainer:
    """The trainer, its plan built or read, its teachers loaded. Raises Refusal."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads any
    torch.set_num_threads(settings["device"]["threads"])
    data = settings["data"]
    found = stores.load(
        Path(data["folder"]),
        data["manifest_sha256"],
        data["context"],
        settings["model"]["vocabulary"],
    )
    training, held_out = (
        windows.index(found.of(split), data["context"]) for split in ("train", "validation")
    )
    seed = mixture.seed_of(settings["seed"], MEMBERS.index(settings["member"]))
    plan = planned(settings, here, found, training, seed)
    check_schedule(settings, plan)
    taught = settings["stage"] == "distill"
    four = teachers.load(settings) if taught else []
    if here.first:
        publish_json(Path(settings["output"]) / "config.json", settings)
    seed_all(seed % (1 << 63))
    model = Model(settings["model"], data["context"])
    ensemble = Ensemble(four, here.device, settings["device"]["precision"])
    return Trainer(settings, here, model, ensemble, plan, training, held_out, found.bos)


def planned(
    settings: Settings, here: world.World, found: Stores, training: Windows, seed: int
) -> Plan:
    """The run's plan: the one in its folder, or a new one where nothing was trained yet.

    Raises Refusal where a run that has a checkpoint has lost its plan.
    """
    folder = Path(settings["output"])
    path = folder / mixture.RECORD
    resumed = settings["launch"]["resume"] and (folder / "checkpoints" / "last.ckpt").exists()
    if here.first and not (resumed or (path.exists() and settings["launch"]["resume"])):
        mixture.write(mixture.build(training, settings, found.sha256, seed), folder)
    here.gathered(None)  # until the first process has written it
    return mixture.read(folder, training, settings, found.sha256, seed)

"""The four frozen teachers: loaded, checked against their pins, and asked once a microbatch."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ensemble import state
from ensemble.files import sha256_file
from ensemble.loss import Head
from ensemble.model import Model
from ensemble.settings import MEMBERS, Refusal, Settings, twin_differences


def load(settings: Settings) -> list[Model]:
    """The teachers in the members' order, the student's twin compared with the student.

    Raises Refusal for a file that is not the pinned one, that holds no twin of that member, or
    whose settings differ from the student's where they must not.
    """
    found = []
    for member in MEMBERS:
        pin = settings["distillation"]["teachers"][member]
        found.append(_teacher(settings, member, Path(pin["file"]), pin))
    return found


def _teacher(settings: Settings, member: str, path: Path, pin: dict[str, Any]) -> Model:
    if pin["sha256"] is not None and (found := sha256_file(path)) != pin["sha256"]:
        raise Refusal(f"teacher {member}: {path}: sha256 {found}, pinned is {pin['sha256']}")
    content = state.load(path)
    config, step = content["config"], content["global_step"]
    if pin["step"] is not None and step != pin["step"]:
        raise Refusal(f"teacher {member}: {path}: holds step {step}, pinned is {pin['step']}")
    if (config["stage"], config["member"]) != ("lm", member):
        what = f"{config['stage']} of {config['member']}"
        raise Refusal(f"teacher {member}: {path}: is {what}, should be lm of {member}")
    vocabulary, context = config["model"]["vocabulary"], config["data"]["context"]
    if vocabulary != settings["model"]["vocabulary"]:
        ours = settings["model"]["vocabulary"]
        raise Refusal(f"teacher {member}: {path}: vocabulary {vocabulary}, the student's is {ours}")
    if context < settings["data"]["context"]:
        ours = settings["data"]["context"]
        raise Refusal(f"teacher {member}: {path}: context {context}, the student's is {ours}")
    if member == settings["member"]:
        for difference in twin_differences(settings, config):
            raise Refusal(f"twin {member}: {path}: {difference}; they must be equal")
    model = Model(config["model"], context)
    for fault in state.weights_faults(content["state_dict"], model.state_dict()):
        raise Refusal(f"teacher {member}: {path}: {fault}")
    model.load_state_dict(content["state_dict"])
    return model.requires_grad_(requires_grad=False).eval()


class Ensemble:
    """Teachers on a device; on CUDA they work beside the student, on a stream of their own."""

    def __init__(self, teachers: Sequence[Model], device: torch.device, precision: str) -> None:
        self.teachers = [teacher.to(device) for teacher in teachers]
        self.device, self.bf16 = device, precision == "bf16"
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    @torch.inference_mode()
    def heads(self, tokens: Tensor, valid: Tensor) -> list[Head]:
        """Each teacher's states at the targets that count, and its embedding.

        `tokens`, `valid`: (rows, positions). On CUDA the work may not be done yet: `wait` first.
        """
        if not self.teachers:
            return []
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(self.device))
        aside = nullcontext() if self.stream is None else torch.cuda.stream(self.stream)
        with aside, torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            return [
                Head(teacher(tokens)[valid], teacher.embedding.weight) for teacher in self.teachers
            ]

    def wait(self, heads: Sequence[Head]) -> None:
        """Let the student's stream use `heads`."""
        if self.stream is not None:
            here = torch.cuda.current_stream(self.device)
            here.wait_stream(self.stream)
            for head in heads:
                head.states.record_stream(here)

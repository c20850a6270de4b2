"""Di4C's own trainer, with the student's start chosen and the teacher left as it was adapted.

Upstream takes the student from the Hub and then puts its weights over the teacher's too; and it
loads both without looking at names, so that a checkpoint of other names would leave them random.
`dlb_student_init` says where the student starts: at its `teacher`, from `scratch`, or at the
small SDTT model its authors published (`hf_small`). Its latent projection is new in each.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import sdtt
import torch
from huggingface_hub.constants import HUGGINGFACE_HUB_CACHE
from safetensors.torch import load_file
from sdtt.core.distill.multi_round_sdtt import MultiRoundSDTT
from sdtt.models.loading_utils import get_backbone
from torch import Tensor
from transformers import AutoTokenizer

SOURCE = Path(sdtt.__file__).parent

NEW = "latent_projection."  # what a teacher does not have
CONSTANT = "rotary_emb.inv_freq"
PUBLISHED = "models--jdeschena--sdtt"


def start(loss: str, round: int, config: Any) -> MultiRoundSDTT:
    """What upstream's `load_small_student` is called for: the student with its teacher."""
    del loss, round  # of the published student, whose file is pinned
    tokenizer = AutoTokenizer.from_pretrained(config.tokenizer.name)
    model = MultiRoundSDTT(config, tokenizer, verbose=False)
    file = config.parameterization.checkpoint_path
    given = torch.load(file, map_location="cpu", weights_only=True)["state_dict"]
    check(file, given, model.backbone.state_dict())
    STARTS[config.dlb_student_init](model, config)
    model.init_ema()  # of the student as it starts
    if config.trainer.accelerator == "cpu":
        model.cuda = lambda: model
    return model


def at_teacher(model: MultiRoundSDTT, config: Any) -> None:
    """The student has its teacher's weights, as upstream loaded them into both."""


def from_scratch(model: MultiRoundSDTT, config: Any) -> None:
    """The student is a new model."""
    model.backbone = get_backbone(config, model.vocab_size)


def at_published(model: MultiRoundSDTT, config: Any) -> None:
    """The student has the published model's weights: the one file of its pinned snapshot."""
    files = sorted(Path(HUGGINGFACE_HUB_CACHE, PUBLISHED).glob("snapshots/*/model.safetensors"))
    if len(files) != 1:
        sys.exit(
            f"dlb_student_init=hf_small: {len(files)} snapshots of jdeschena/sdtt are in the Hub's "
            "cache, one is needed: pin it at baselines_kld_step_70000"
        )
    # Saved from a model that wraps the one it began with: a prefix for each.
    given = {name.replace("backbone.", ""): tensor for name, tensor in load_file(files[0]).items()}
    check(str(files[0]), given, model.backbone.state_dict())
    model.backbone.load_state_dict(given, strict=False)


STARTS = {"teacher": at_teacher, "scratch": from_scratch, "hf_small": at_published}


def check(file: str, given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """End the program unless `given` has each of the `wanted` tensors and no others."""
    names = {name for name in wanted if not name.startswith(NEW)}
    refuse(file, "lacks", names - given.keys() - {CONSTANT})
    refuse(file, "has no use for", given.keys() - names)
    refuse(file, "has another shape of", (n for n in given if given[n].shape != wanted[n].shape))


def refuse(file: str, what: str, names: Iterable[str]) -> None:
    """End the program if there are such names."""
    if found := sorted(names):
        sys.exit(f"{file}: {what} {found[0]} ({len(found)} such names)")


def run(main: ModuleType) -> None:
    """The upstream's main program, in this one's place: Hydra and Lightning look at it there."""
    sys.path.insert(0, str(SOURCE))  # as for a program there
    entry = SOURCE / "main.py"
    exec(compile(entry.read_bytes(), str(entry), "exec"), vars(main))


if __name__ == "__main__":
    import __main__

    sdtt.load_small_student = start
    run(__main__)

"""Where Di4C's student starts: the teacher stays as it is, and names that do not fit are refused.

The upstream here is a small one of the same form; the real one is run by the conformance tests.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ADAPTERS = Path(__file__).parents[2] / "adapters"
PACKAGES = {
    "transformers/__init__.py": """
class AutoTokenizer:
    @staticmethod
    def from_pretrained(name):
        return name
""",
    "safetensors/__init__.py": "",
    "safetensors/torch.py": """
import torch
def load_file(path):
    with open(path, "rb") as file:  # by its name, torch would read it with this package
        return torch.load(file, weights_only=True)
""",
    "huggingface_hub/__init__.py": "",
    "huggingface_hub/constants.py": "import os; HUGGINGFACE_HUB_CACHE = os.environ['HUB']",
    "sdtt/__init__.py": "def load_small_student(**_): raise SystemExit('from the Hub')",
    "sdtt/core/__init__.py": "",
    "sdtt/core/distill/__init__.py": "",
    "sdtt/core/distill/multi_round_sdtt.py": """
import torch
from sdtt.models.loading_utils import get_backbone
class MultiRoundSDTT(torch.nn.Module):
    def __init__(self, config, tokenizer, verbose=True):
        super().__init__()
        self.vocab_size = 5
        self.backbone = get_backbone(config, 5)
        self.teacher = [get_backbone(config, 5)]
        given = torch.load(config.parameterization.checkpoint_path)["state_dict"]
        for model in (self.backbone, self.teacher[0]):
            model.load_state_dict(given, strict=False)
    def init_ema(self):
        self.ema = [p.clone() for p in self.backbone.parameters()]
""",
    "sdtt/models/__init__.py": "",
    "sdtt/models/loading_utils.py": """
import torch
def get_backbone(config, vocab_size):
    model = torch.nn.Module()
    model.head = torch.nn.Linear(2, vocab_size)
    model.latent_projection = torch.nn.Linear(1, 2)
    model.register_buffer("inv_freq", torch.ones(1))
    model.rotary_emb = torch.nn.Module()
    model.rotary_emb.register_buffer("inv_freq", torch.ones(1))
    del model.inv_freq
    return model
""",
    "sdtt/main.py": """
from sdtt import load_small_student
load_small_student(loss="kld", round=7, config=None)
""",
}
# Each case is a teacher's file, a Hub's cache and a start; the answer what came of it.
PROGRAM = """
import json, os, sys, types
import torch, train_di4c
space = types.SimpleNamespace
def first(weights):
    return [p for n, p in weights if n == "head.weight"][0].flatten()[0].item()
def outcome(teacher, hub, start):
    train_di4c.HUGGINGFACE_HUB_CACHE = hub
    config = space(
        tokenizer=space(name="t"), trainer=space(accelerator="cpu"),
        parameterization=space(checkpoint_path=teacher), dlb_student_init=start,
    )
    try:
        model = train_di4c.start(loss="kld", round=7, config=config)
    except SystemExit as error:
        return str(error)
    assert model.cuda() is model
    student = list(model.backbone.named_parameters())
    ema = zip([name for name, _ in student], model.ema)
    return [first(weights) for weights in (model.teacher[0].named_parameters(), student, ema)]
print(json.dumps({name: outcome(*case) for name, case in json.load(sys.stdin).items()}))
"""
HUB = "hub/models--jdeschena--sdtt/snapshots/{}/model.safetensors"


def state(value: float, size: int = 5) -> dict[str, torch.Tensor]:
    return {"head.weight": torch.full((size, 2), value), "head.bias": torch.zeros(size)}


GOOD, ROTARY = state(1.0), {"rotary_emb.inv_freq": torch.ones(1)}
PUBLISHED = {f"backbone.backbone.{name}": tensor for name, tensor in state(2.0).items()}
# Name: the teacher, the published students, the start.
CASES: dict[str, tuple[dict[str, torch.Tensor], list[dict[str, torch.Tensor]], str]] = {
    "at the teacher": (GOOD, [], "teacher"),
    "with the rotary constant": ({**GOOD, **ROTARY}, [], "teacher"),
    "from scratch": (GOOD, [], "scratch"),
    "at the published student": (GOOD, [PUBLISHED], "hf_small"),
    "no published student": (GOOD, [], "hf_small"),
    "two published students": (GOOD, [PUBLISHED, PUBLISHED], "hf_small"),
    "another vocabulary": (GOOD, [state(2.0, size=7)], "hf_small"),
    "a name too few": ({"head.weight": torch.zeros(5, 2)}, [], "teacher"),
    "names too many": ({**GOOD, "other": torch.zeros(1), "p": torch.zeros(1)}, [], "teacher"),
}


def upstream(folder: Path) -> Path:
    for name, text in PACKAGES.items():
        file = folder / "source" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "source"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("di4c")
    source, asked = upstream(folder), {}
    for name, (teacher, students, start) in CASES.items():
        here = folder / name
        here.mkdir()
        torch.save({"state_dict": teacher}, here / "teacher.ckpt")
        for number, student in enumerate(students):
            file = here / HUB.format(number)
            file.parent.mkdir(parents=True)
            torch.save(student, file)
        asked[name] = [str(here / "teacher.ckpt"), str(here / "hub"), start]
    variables = {"PYTHONPATH": f"{source}:{ADAPTERS}", "HUB": "none"}
    command = [sys.executable, "-B", "-c", PROGRAM]
    done = subprocess.run(
        command, input=json.dumps(asked), env=variables, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", ["at the teacher", "with the rotary constant"])
def test_at_the_teacher(outcomes: Any, case: str) -> None:
    assert outcomes[case] == [1.0, 1.0, 1.0]


def test_from_scratch_the_teacher_stays(outcomes: Any) -> None:
    teacher, student, averaged = outcomes["from scratch"]
    assert teacher == 1.0
    assert student == averaged
    assert abs(student) < 0.72  # of a new linear layer of two inputs


def test_at_the_published_student_the_teacher_stays(outcomes: Any) -> None:
    assert outcomes["at the published student"] == [1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("no published student", "dlb_student_init=hf_small: 0 snapshots of jdeschena/sdtt are"),
        ("two published students", "dlb_student_init=hf_small: 2 snapshots of jdeschena/sdtt are"),
        ("another vocabulary", "model.safetensors: has another shape of head.bias (2 such names)"),
        ("a name too few", "teacher.ckpt: lacks head.bias (1 such names)"),
        ("names too many", "teacher.ckpt: has no use for other (2 such names)"),
    ],
)
def test_what_does_not_fit_is_refused(outcomes: Any, case: str, why: str) -> None:
    assert why in outcomes[case]


def test_upstream_s_program_calls_the_adapter(tmp_path: Path) -> None:
    command = [sys.executable, "-B", str(ADAPTERS / "train_di4c.py")]
    variables = {"PYTHONPATH": str(upstream(tmp_path)), "HUB": "none"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    # Called without a configuration: the first thing it needs of one.
    assert done.stderr.endswith("AttributeError: 'NoneType' object has no attribute 'tokenizer'\n")

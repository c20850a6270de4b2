"""Where Di4C's student starts: the teacher stays as it is, and names that do not fit are refused.

The upstream here is a small one of the same form; the real one is run by the conformance tests.
"""

import subprocess
import sys
from pathlib import Path

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
    "sdtt/__init__.py": "def load_small_student(*_, **__): raise SystemExit('from the Hub')",
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
import sys, types
from sdtt import load_small_student
name = dict(pair.split("=") for pair in sys.argv[1:])
space = types.SimpleNamespace
config = space(
    tokenizer=space(name="t"), trainer=space(accelerator="cpu"),
    parameterization=space(checkpoint_path=name["teacher"]), dlb_student_init=name["start"],
)
import torch
torch.manual_seed(0)
model = load_small_student(loss="kld", round=7, config=config)
model.cuda()
first = lambda weights: [p for n, p in weights if n == "head.weight"][0].flatten()[0].item()
ema = dict(zip([n for n, _ in model.backbone.named_parameters()], model.ema))
print(*(round(first(w), 3) for w in (
    model.teacher[0].named_parameters(), model.backbone.named_parameters(), ema.items())))
""",
}


def state(value: float, size: int = 5) -> dict[str, torch.Tensor]:
    return {"head.weight": torch.full((size, 2), value), "head.bias": torch.zeros(size)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in PACKAGES.items():
        file = tmp_path / "source" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    torch.save({"state_dict": state(1.0)}, tmp_path / "teacher.ckpt")
    return tmp_path


def run(folder: Path, start: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", str(ADAPTERS / "train_di4c.py")]
    command += [f"teacher={folder / 'teacher.ckpt'}", f"start={start}"]
    variables = {"PYTHONPATH": str(folder / "source"), "HUB": str(folder / "hub")}
    return subprocess.run(command, env=variables, capture_output=True, text=True)


def publish(folder: Path, revision: str, weights: dict[str, torch.Tensor]) -> None:
    file = folder / f"hub/models--jdeschena--sdtt/snapshots/{revision}/model.safetensors"
    file.parent.mkdir(parents=True)
    torch.save(weights, file)


def test_at_the_teacher(folder: Path) -> None:
    assert run(folder, "teacher").stdout == "1.0 1.0 1.0\n"


def test_from_scratch_the_teacher_stays(folder: Path) -> None:
    teacher, student, averaged = map(float, run(folder, "scratch").stdout.split())
    assert teacher == 1.0
    assert student == averaged
    assert abs(student) < 0.72  # of a new linear layer of two inputs


def test_at_the_published_student_the_teacher_stays(folder: Path) -> None:
    publish(folder, "a" * 40, {f"backbone.backbone.{n}": t for n, t in state(2.0).items()})
    assert run(folder, "hf_small").stdout == "1.0 2.0 2.0\n"


@pytest.mark.parametrize("revisions", ["", "ab"])
def test_a_published_student_that_is_not_the_one(folder: Path, revisions: str) -> None:
    for revision in revisions:
        publish(folder, revision * 40, state(2.0))
    done = run(folder, "hf_small")
    assert done.returncode == 1
    assert f"hf_small: {len(revisions)} snapshots of jdeschena/sdtt" in done.stderr


BAD = {
    "lacks head.bias (1 such": {"head.weight": torch.zeros(5, 2)},
    "has no use for other (2 such": {**state(1.0), "other": torch.zeros(1), "p": torch.zeros(1)},
}


@pytest.mark.parametrize("why", BAD)
def test_a_teacher_of_other_names(folder: Path, why: str) -> None:
    torch.save({"state_dict": BAD[why]}, folder / "teacher.ckpt")
    done = run(folder, "teacher")
    assert done.returncode == 1
    assert done.stderr.endswith(f"teacher.ckpt: {why} names)\n")


def test_a_published_student_of_another_vocabulary(folder: Path) -> None:
    publish(folder, "a" * 40, state(2.0, size=7))
    done = run(folder, "hf_small")
    assert "model.safetensors: has another shape of head.bias (2 such names)" in done.stderr


def test_the_rotary_constant_may_be_there_or_not(folder: Path) -> None:
    whole = {**state(1.0), "rotary_emb.inv_freq": torch.ones(1)}
    torch.save({"state_dict": whole}, folder / "teacher.ckpt")
    assert run(folder, "teacher").stdout == "1.0 1.0 1.0\n"

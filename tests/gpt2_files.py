"""A small GPT-2 in the files of a published one, made on the spot, and pinned in its place."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from harness.data.places import Places
from harness.files import sha256_file
from harness.project import Project

CHECKOUT = Path(__file__).parents[1]
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__")
AT_THE_TOP = {"runs", "data", "evaluations"}  # what a user of the checkout may have there
SHAPE = {"n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": 24, "layer_norm_epsilon": 1e-5}
END = 256  # after the bytes


def tensors(
    spread: float, vocabulary: int = END + 1, length: int = SHAPE["n_positions"]
) -> dict[str, torch.Tensor]:
    """The tensors of a published file, drawn from a normal distribution of that spread."""
    torch.manual_seed(0)
    width = SHAPE["n_embd"]

    def drawn(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes) * spread

    found = {"wte.weight": drawn(vocabulary, width), "wpe.weight": drawn(length, width)}
    sizes = {"attn.c_attn": 3, "attn.c_proj": 1, "mlp.c_fc": 4}
    for block in range(SHAPE["n_layer"]):
        for norm in ("ln_1", "ln_2"):
            found[f"h.{block}.{norm}.weight"] = 1 + drawn(width)
            found[f"h.{block}.{norm}.bias"] = drawn(width)
        for name, times in sizes.items():
            found[f"h.{block}.{name}.weight"] = drawn(width, times * width)
            found[f"h.{block}.{name}.bias"] = drawn(times * width)
        found[f"h.{block}.mlp.c_proj.weight"] = drawn(4 * width, width)
        found[f"h.{block}.mlp.c_proj.bias"] = drawn(width)
        # The published file also has the mask, which is no weight.
        found[f"h.{block}.attn.bias"] = torch.ones(1, 1, length, length).tril()
    return found | {"ln_f.weight": 1 + drawn(width), "ln_f.bias": drawn(width)}


def write(snapshot: Path, spread: float = 0.3, length: int = SHAPE["n_positions"]) -> Path:
    """Write configuration, weights and a tokenizer of single bytes."""
    snapshot.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "gpt2", "activation_function": "gelu_new", "vocab_size": END + 1,
        "eos_token_id": END, "bos_token_id": END, "n_ctx": length, **SHAPE, "n_positions": length,
    }  # fmt: skip
    (snapshot / "config.json").write_text(json.dumps(config))
    save_file(
        tensors(spread, length=length), snapshot / "model.safetensors", metadata={"format": "pt"}
    )
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: n for n, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|endoftext|>"])
    made.save(str(snapshot / "tokenizer.json"))
    return snapshot


def pinned(source: Path, root: Path, length: int = SHAPE["n_positions"]) -> Project:
    """A copy of the checkout whose pins name a small GPT-2 large, which lies in `root`'s cache."""

    def ignored(folder: str, names: list[str]) -> set[str]:
        at_the_top = AT_THE_TOP if Path(folder) == CHECKOUT else set[str]()
        return NOT_COPIED(folder, names) | at_the_top

    shutil.copytree(CHECKOUT, source, ignore=ignored)
    project = Project(source=source, root=root)
    pins = json.loads((source / "pins.json").read_text())
    model = pins["models"]["gpt2-large"]
    snapshot = write(
        Places.of(project).snapshot("model", "gpt2-large", model["revision"]), length=length
    )
    for part in ("files", "weights"):
        for name in model[part]:
            if (snapshot / name).exists():
                model[part][name] = sha256_file(snapshot / name)
    (source / "pins.json").write_text(json.dumps(pins))
    return project

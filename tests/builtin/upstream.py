"""The papers' own code, imported from mirrors for comparison, with stand-ins for what it imports.

Nothing of it is in this repository: a folder of mirrors (git directories named `owner+name`) is
named by HARNESS_MIRRORS, and files are read from their HEAD.
"""

import importlib
import subprocess
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PINNED = {
    "kuleshov-group+mdlm": "c112c526d193436838c98d81455ee51f90309470",
    "s-sahoo+duo": "7c9b498f5b717de064d6fad7e2509c866e6cb620",
    "patrickpynadath1+candi-diffusion": "cd57ae9eec98d6ac71cd52bdc50eeec8dfd70f91",
    "harryjo97+RDLM": "67443aa6a2d0fa981eb7c6105f9cbc563e59c5c1",
    "sony+di4c": "ac61ff9fe8e85120f9e1d2a8c5a332f8b8353dd3",
    # Not the recipes' commits, which are nowhere to be had.
    "jdeschena+sdtt": "9172b86500126d4ca93bd5e204395c5062fdc7fd",
    "david3684+flm": "d89a02f",
}


def rearrange(x: Tensor, pattern: str, **sizes: int) -> Tensor:
    """The few patterns of einops that the upstreams use."""
    if pattern == "b s (three h d) -> b s three h d":
        return x.view(*x.shape[:2], sizes["three"], sizes["h"], -1)
    if pattern == "b s ... -> (b s) ...":
        return x.flatten(0, 1)
    if pattern == "(b s) h d -> b s (h d)":
        return x.reshape(sizes["b"], -1, x.shape[1] * x.shape[2])
    if pattern == "b s h d -> b s (h d)":
        return x.flatten(2)
    if pattern == "b s h d -> b h s d":
        return x.transpose(1, 2)
    if pattern == "b h s d -> b s (h d)":
        return x.transpose(1, 2).flatten(2)
    raise ValueError(pattern)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """flash-attn's rotary embedding of x (B, L, heads, head), halves turning together."""
    first, second = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)


def turned_packed(qkv: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The same of packed queries and keys (B, L, 3, heads, head)."""
    q, k, v = qkv.unbind(2)
    return torch.stack((turned(q, cos, sin), turned(k, cos, sin), v), 2)


def attention_packed(qkv: Tensor, ends: Tensor, length: int, *_: Any, **__: Any) -> Tensor:
    """flash-attn's variable-length attention, of rows that are all `length` long."""
    q, k, v = qkv.view(-1, length, *qkv.shape[1:]).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(0, 1)


def attention_softcapped(qkv: Tensor, *_: Any, softcap: float, **__: Any) -> Tensor:
    """flash-attn's attention of packed rows (B, L, 3, heads, head) with bounded scores."""
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return ((softcap * (scores / softcap).tanh()).softmax(-1) @ v).transpose(1, 2)


# Packages that computing a loss does not need.
NAMES = {
    *("lightning", "hydra", "transformers", "datasets", "fsspec", "requests", "tokenizers"),
    *("torchmetrics", "timm", "huggingface_hub", "flash_attn", "einops", "scipy", "rich"),
    *("zstandard", "mauve", "nltk", "causal_conv1d", "mamba_ssm", "pandas", "loguru", "tqdm"),
    *("wandb", "torchdata", "matplotlib", "sklearn", "dotenv", "entmax"),
    *("metrics", "dataloader", "text_metrics"),  # of the upstreams themselves
}


class StandIns(MetaPathFinder, Loader):
    """Anything of those packages, as a mock."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Stand in for `name` where its package is one of them."""
        known = name.partition(".")[0] in NAMES
        return ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec: ModuleSpec) -> Any:
        """A mock, with what the upstreams do compute with."""
        module = MagicMock(name=spec.name)
        module.__path__ = []
        packed = attention_softcapped
        varlen = SimpleNamespace(flash_attn_varlen_qkvpacked_func=attention_packed)
        for owner, attribute, value in (
            ("lightning", "LightningModule", nn.Module),
            ("lightning", "Callback", object),
            ("timm.scheduler", "CosineLRScheduler", type("CosineLRScheduler", (), {})),
            ("torchmetrics.aggregation", "MeanMetric", object),
            ("huggingface_hub", "PyTorchModelHubMixin", type("Mixin", (), {})),
            ("einops", "rearrange", rearrange),
            ("flash_attn.layers.rotary", "apply_rotary_emb_torch", turned),
            ("flash_attn.layers.rotary", "apply_rotary_emb_qkv_", turned_packed),
            ("flash_attn", "flash_attn_interface", varlen),
            ("flash_attn", "flash_attn_qkvpacked_func", packed),
        ):
            if owner == spec.name:
                setattr(module, attribute, value)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: a mock is complete."""


def export(mirrors: Path, name: str, into: Path) -> Path:
    """Write the pinned tree of a mirror's Python files to `into`."""
    mirror = mirrors / name / "repo"
    listed = ["git", "--git-dir", str(mirror), "ls-tree", "-r", "--name-only", PINNED[name]]
    for file in subprocess.check_output(listed, text=True).splitlines():
        if file.endswith(".py"):
            shown = ["git", "--git-dir", str(mirror), "show", f"{PINNED[name]}:{file}"]
            path = into / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(subprocess.check_output(shown))
    return into


def imported(tree: Path, *names: str) -> list[ModuleType]:
    """Modules of an exported tree; `sys.modules` and the import path are as before after it."""
    before, finder = dict(sys.modules), StandIns()
    own = {path.stem for path in tree.glob("*.py")} | {"models", "model", "utils", "sdtt", *NAMES}
    for name in list(sys.modules):
        if name.partition(".")[0] in own:
            del sys.modules[name]
    sys.meta_path.insert(0, finder)
    sys.path.insert(0, str(tree))
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(tree))
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in own]:
            del sys.modules[name]
        sys.modules.update(before)

"""Adapted teachers as torch and a real network see them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import teacher
import torch
from algorithms import build
from backbone import DiT
from omegaconf import DictConfig
from small_models import perturbed
from vocabulary import Vocabulary

from harness.inside.teacher import main

BASE = 110
NEVER = -1e6


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("algorithm", "family"), [("mdlm", "masked"), ("duo", "uniform")])
def test_a_network_predicts_the_same_after_the_adaptation(
    configured: Callable[..., DictConfig],
    tmp_path: Path,
    algorithm: str,
    family: str,
    padded: bool,
) -> None:
    """`padded`: the vocabulary has a state more than the tokenizer, the mask or a padding."""
    tokens = Vocabulary(BASE, None if padded else 103, None if padded else 0)
    config = configured(f"algo={algorithm}", "data.cache_dir=x", "data.tokenizer_name_or_path=x")
    original = perturbed(build(config, tokens, torch.float32).backbone, 0.3).double().eval()
    state = {f"backbone.{name}": value.float() for name, value in original.state_dict().items()}
    original.load_state_dict({k.removeprefix("backbone."): v for k, v in state.items()})
    torch.save({"state_dict": state}, tmp_path / "t.ckpt")
    words = ["--transformation", f"{family}_to_absorbing", "--weights", "raw"]
    words += ["--base", str(BASE), "--blocks", "2"]
    assert main([str(tmp_path / "t.ckpt"), str(tmp_path / "a.ckpt"), *words]) == 0

    loaded = torch.load(tmp_path / "a.ckpt", weights_only=True)["state_dict"]
    assert all(value.dtype == torch.float32 and value.is_contiguous() for value in loaded.values())
    shape = vars(original.shape) | {"vocabulary": BASE + 1}
    adapted = DiT(type(original.shape)(**shape), torch.float32)
    teacher.load(adapted, str(tmp_path / "a.ckpt"))
    adapted = adapted.double().eval()

    mask = BASE if padded else 103
    rows = torch.randint(0, BASE, (3, 8), generator=torch.Generator().manual_seed(1))
    rows[rows == 103] = 7
    hidden = torch.rand(rows.shape, generator=torch.Generator().manual_seed(2)) < 0.5
    hidden &= torch.tensor(family == "masked")
    sigma = torch.tensor([0.1, 0.5, 2.0], dtype=torch.float64)
    with torch.no_grad():
        before = original(rows.masked_fill(hidden, mask), sigma)
        after = adapted(rows.masked_fill(hidden, BASE), sigma)
    if padded or family == "masked":
        before[..., mask] += NEVER
    after[..., BASE] += NEVER
    kept = [token for token in range(BASE) if family == "uniform" or token != mask]
    before, after = before.log_softmax(-1)[..., kept], after.log_softmax(-1)
    assert after[..., kept].exp().sum(-1).allclose(torch.ones(3, 8, dtype=torch.float64))
    assert (before - after[..., kept]).abs().max() < 1e-12


def test_equal_bytes_from_torch_and_back(tmp_path: Path) -> None:
    """What is written is read back by torch to the bit, mapped into memory too."""
    import numpy as np

    from harness.inside.write import write_state

    arrays = {
        "a": np.arange(6, dtype="<f4").reshape(2, 3).T,
        "b": np.zeros(0, "<f4"),
        "c": np.float32(2.5).reshape(()),
    }
    write_state(tmp_path / "w.ckpt", arrays)
    for mapped in (False, True):
        found = torch.load(tmp_path / "w.ckpt", weights_only=True, mmap=mapped)["state_dict"]
        assert list(found) == list(arrays)
        for name, value in arrays.items():
            assert found[name].shape == value.shape
            assert np.array_equal(found[name].numpy(), value)

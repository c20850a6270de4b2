"""Weights out of checkpoints: names unwrapped, averages where asked, nothing silently left out."""

from pathlib import Path

import checkpoint
import pytest
import teacher
import torch
from backbone import DiT, Shape
from ema import Average
from small_models import perturbed

SHAPE = Shape(vocabulary=5, length=4, hidden=8, condition=4, blocks=1, heads=2, dropout=0.0)


@pytest.fixture
def trained() -> DiT:
    return perturbed(DiT(SHAPE))


def saved(path: Path, state: dict[str, torch.Tensor], **more: object) -> str:
    checkpoint.save(path, {"state_dict": state, **more})
    return str(path)


@pytest.mark.parametrize("prefix", ["", "backbone.", "_orig_mod.backbone.", "backbone._orig_mod."])
def test_wrappers_are_dropped(trained: DiT, tmp_path: Path, prefix: str) -> None:
    state = {prefix + name: value for name, value in trained.state_dict().items()}
    fresh = DiT(SHAPE)
    teacher.load(fresh, saved(tmp_path / "t", state))
    assert all(map(torch.equal, fresh.state_dict().values(), trained.state_dict().values()))


def test_averages_stand_in_for_parameters(trained: DiT, tmp_path: Path) -> None:
    average = Average(trained.parameters(), 0.5)
    perturbed(trained, seed=1)
    average.update()
    path = saved(tmp_path / "t", trained.state_dict(), ema=average.state())
    raw, smooth = DiT(SHAPE), DiT(SHAPE)
    teacher.load(raw, path)
    teacher.load(smooth, path, averaged=True)
    assert all(map(torch.equal, raw.parameters(), trained.parameters()))
    assert all(map(torch.equal, smooth.parameters(), average.shadow))


def test_what_does_not_fit_ends_in_one_line(trained: DiT, tmp_path: Path) -> None:
    state = dict(trained.state_dict())
    del state["rotary_emb.inv_freq"]  # may be absent
    teacher.load(DiT(SHAPE), saved(tmp_path / "t", state))
    cases = {
        "is missing": {k: v for k, v in state.items() if k != "output_layer.linear.bias"},
        "is not of this": {**state, "head.weight": torch.zeros(1)},
        "should be": {**state, "output_layer.linear.bias": torch.zeros(9)},
        "stands twice": {**state, "backbone.output_layer.linear.bias": torch.zeros(5)},
    }
    for message, wrong in cases.items():
        with pytest.raises(SystemExit, match=message):
            teacher.load(DiT(SHAPE), saved(tmp_path / "t", wrong))


def test_new_parts_keep_their_start(trained: DiT, tmp_path: Path) -> None:
    path = saved(tmp_path / "t", trained.state_dict())
    wider = DiT(Shape(**{**vars(SHAPE), "latent": True}))
    before = wider.latent_projection[0].weight.clone()
    teacher.load(wider, path, new=("latent_projection.",))
    assert torch.equal(wider.latent_projection[0].weight, before)
    assert torch.equal(wider.vocab_embed.embedding, trained.vocab_embed.embedding)
    with pytest.raises(SystemExit, match="is missing"):
        teacher.load(wider, path)

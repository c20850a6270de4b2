"""The built-in trainers' modules, importable, and small models and data for their tests."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "builtin"), str(Path(__file__).parent)]

import torch  # noqa: E402
from hydra import compose, initialize_config_dir  # noqa: E402
from omegaconf import DictConfig  # noqa: E402

torch.set_num_threads(1)
TINY = ("model.hidden_size=16", "model.cond_dim=8", "model.n_blocks=2", "model.n_heads=2")


@pytest.fixture
def configured() -> Callable[..., DictConfig]:
    """Compose a configuration of a very small model, with more overrides."""

    def make(*overrides: str, tree: str = "configs") -> DictConfig:
        with initialize_config_dir(str(ROOT / "builtin" / tree), version_base=None):
            return compose("config", ["model=tiny", *TINY, *overrides])

    return make


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, list[np.ndarray]], Path]:
    """Write a data set as `datasets` does, a shard for each array of rows."""
    import json

    import pyarrow

    def write(name: str, shards: list[np.ndarray]) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        files = []
        for number, rows in enumerate(shards):
            file = f"data-{number:05d}.arrow"
            kind = pyarrow.list_(pyarrow.uint16(), rows.shape[1])
            flat = pyarrow.array(rows.reshape(-1).astype(np.uint16))
            column = pyarrow.FixedSizeListArray.from_arrays(flat, type=kind)
            batch = pyarrow.record_batch([column], names=["input_ids"])
            with pyarrow.ipc.new_stream(str(folder / file), batch.schema) as stream:
                stream.write_batch(batch.slice(0, len(rows) // 2))
                stream.write_batch(batch.slice(len(rows) // 2))
            files.append({"filename": file})
        (folder / "state.json").write_text(json.dumps({"_data_files": files}))
        return folder

    return write


@pytest.fixture
def teacher_of(configured: Callable[..., DictConfig], tmp_path: Path) -> Callable[..., str]:
    """Write the checkpoint of a random model of an algorithm, as a trainer does; its path."""
    import checkpoint
    from algorithms import build
    from ema import Average
    from small_models import perturbed

    def write(algorithm: str, vocabulary: object, *overrides: str) -> str:
        torch.manual_seed(5)
        model = build(configured(algorithm, *overrides), vocabulary, torch.float32)
        backbone = perturbed(model.backbone, 0.2)
        state = {f"backbone.{name}": value for name, value in backbone.state_dict().items()}
        average = Average(backbone.parameters(), 0.9)
        path = tmp_path / "teacher.ckpt"
        checkpoint.save(path, {"state_dict": state, "ema": average.state()})
        return str(path)

    return write

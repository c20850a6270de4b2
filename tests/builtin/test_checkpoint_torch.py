"""The reader against torch itself: what torch.save writes has the digest of its own tensors."""

import collections
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from harness.inside import checkpoint
from harness.inside.formats import load
from harness.inside.refusal import Refusal

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
    torch.complex128,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint32,
    torch.bool,
]


def content(tensor: torch.Tensor) -> bytes:
    """Elements in C order, by torch's own layout rules."""
    plain = tensor.detach().clone(memory_format=torch.contiguous_format)
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()


def reference(named: dict[str, torch.Tensor]) -> str:
    rows = [
        [name, str(t.dtype)[6:], list(t.shape), hashlib.sha256(content(t)).hexdigest()]
        for name, t in sorted(named.items())
    ]
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


def digest(value: object, path: Path, protocol: int = 2) -> dict[str, Any]:
    torch.save(value, path, pickle_protocol=protocol)
    return checkpoint.report(load(path))


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """A tensor of random bits, seen through a random view."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    size = dtype.itemsize * int(np.prod(shape))
    bits = torch.frombuffer(
        bytearray(draw(st.binary(min_size=size, max_size=size)) + b"\0"), dtype=torch.uint8
    )
    if dtype is torch.bool:
        bits = bits % 2
    tensor = bits[:size].clone().view(dtype).reshape(shape)
    for _ in range(draw(st.integers(0, 3))):
        if tensor.dim() == 0:
            break
        axis = draw(st.integers(0, tensor.dim() - 1))
        match draw(st.sampled_from(["transpose", "narrow", "step", "expand", "select"])):
            case "transpose":
                tensor = tensor.transpose(0, axis)
            case "narrow" if tensor.shape[axis]:
                tensor = tensor.narrow(axis, 1, tensor.shape[axis] - 1)
            case "step":
                tensor = tensor[(slice(None),) * axis + (slice(None, None, 2),)]
            case "expand":
                tensor = tensor.unsqueeze(0).expand(3, *tensor.shape)
            case "select" if tensor.shape[axis]:
                tensor = tensor.select(axis, 0)
    return tensor


names = st.text(
    st.characters(exclude_characters="/~", exclude_categories=["Cs"]), min_size=1, max_size=5
)


@settings(max_examples=150, deadline=None)
@given(state=st.dictionaries(names, tensors(), min_size=1, max_size=5), protocol=st.integers(2, 5))
def test_what_torch_saves(
    tmp_path_factory: pytest.TempPathFactory, state: dict[str, torch.Tensor], protocol: int
) -> None:
    path = tmp_path_factory.mktemp("torch") / "a.ckpt"
    wrapped = {
        "state_dict": collections.OrderedDict(state),
        "ema": {"shadow_params": [*state.values()]},
    }
    found = digest(wrapped, path, protocol)
    assert found["groups"]["state"]["digest"] == reference(state)
    width = len(str(len(state) - 1))
    shadows = {f"shadow_params/{n:0{width}}": t for n, t in enumerate(state.values())}
    assert found["groups"]["ema"]["digest"] == reference(shadows)
    finite = all(bool(torch.isfinite(t.to(torch.complex128)).all()) for t in state.values())
    assert found["groups"]["state"]["finite"] is finite


@pytest.mark.parametrize("protocol", [2, 5])
def test_a_trainers_whole_state(tmp_path: Path, protocol: int) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    value = {
        "state_dict": model.state_dict(),
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [scheduler.state_dict()],
        "hyper_parameters": {"config": OmegaConf.create({"a": [1, "${b}"], "b": None})},
        "generators": {
            "torch": torch.get_rng_state(),
            "numpy": np.random.default_rng(0).bit_generator.state,
            "legacy": np.random.RandomState(0).get_state(),
        },
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "types": [torch.float16, torch.Size([1, 2]), torch.device("cpu"), np.float64(1.5)],
        "version": torch.__version__,
        "global_step": 5,
    }
    found = digest(value, tmp_path / "a.ckpt", protocol)
    assert found["groups"]["state"]["digest"] == reference(dict(model.state_dict()))
    assert found["step"] == 5
    assert found["hyper_parameters"] == {"config": {"a": [1, "${b}"], "b": None}}
    listed = [row["name"] for row in found["tensors"]]
    assert "optimizer_states/0/state/0/exp_avg" in listed
    assert "generators/legacy/1" in listed


def test_shared_storages_and_parameters_with_attributes(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    marked = torch.nn.Parameter(base[1:])
    marked.mark = True  # type: ignore[attr-defined]
    state = {"a": base, "b": base.t(), "c": marked, "d": torch.empty(0), "e": torch.tensor(1)}
    found = digest(state, tmp_path / "a")
    assert found["groups"]["all"]["digest"] == reference(state)


class Own(torch.Tensor):
    """A tensor class of somebody's own."""


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: torch.eye(2).to_sparse(), "_rebuild_sparse_tensor"),
        (
            lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
            "QInt8|_rebuild_qtensor",
        ),
        (lambda: torch.tensor([1j]).conj(), "conjugate"),
        (lambda: torch.ones(1, device="meta"), "_rebuild_meta_tensor"),
        (lambda: torch.ones(1).as_subclass(Own), r"test_checkpoint_torch\.Own"),
        (lambda: torch.nn.Linear(1, 1), r"torch\.nn\.modules\.linear\.Linear"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_other_tensors_are_refused_by_name(
    tmp_path: Path, make: Callable[[], object], name: str
) -> None:
    torch.save({"x": make()}, tmp_path / "a")
    with pytest.raises(Refusal, match=name):
        load(tmp_path / "a")


def test_the_old_format_is_refused(tmp_path: Path) -> None:
    torch.save({"x": torch.ones(1)}, tmp_path / "a", _use_new_zipfile_serialization=False)
    with pytest.raises(Refusal, match="old format"):
        load(tmp_path / "a")

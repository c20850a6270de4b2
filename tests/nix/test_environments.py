"""The project's own environments, in an empty process environment."""

import subprocess
from pathlib import Path

import pytest

from harness import nix
from harness.project import Project

SOURCE = Path(__file__).parents[2]
PROJECT = Project(source=SOURCE, root=SOURCE)

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("smoke", "import torch, numpy; print(torch.ones(2).numpy().sum())"),
        ("smoke", "import hydra, omegaconf, antlr4, pyarrow, tokenizers, safetensors; print(2.0)"),
        ("cli", "import click, rich, jsonschema, rfc8785, huggingface_hub, yaml; print(2.0)"),
    ],
)
def test_it_imports_with_no_variable_set(name: str, code: str) -> None:
    made = nix.realise(PROJECT, name)
    command = made.base.command(made.path, "-sP", "-c", code)
    done = subprocess.run(command, env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr
    assert nix.verify_path(made.path)  # nothing was written beside the modules


def test_a_program_that_comes_ready_made_is_there() -> None:
    made = nix.realise(PROJECT, "test")
    done = subprocess.run([made.path / "bin/ruff", "--version"], capture_output=True, check=True)
    assert done.stdout.startswith(b"ruff ")

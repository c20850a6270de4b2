"""Published causal models that judge samples: by our own code (`harness/judge/`) or a trainer's."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import places
from harness.data import pins, ready
from harness.identity import tree_digest
from harness.limits import NONE, Limits
from harness.nix import Environment, realise
from harness.project import Project
from harness.sandbox import Box, Mount

ENVIRONMENT = "smoke"  # has torch, tokenizers and safetensors
FILES = ("config.json", "model.safetensors", "tokenizer.json")
_CODE = f"{places.ROOT}/judge"
_MODEL = f"{places.ROOT}/model"
_SAMPLES = f"{places.ROOT}/samples.jsonl"


@dataclass(frozen=True)
class Model:
    """A pinned model whose files are here and checked; `files` have their places and digests."""

    name: str
    revision: str
    files: Mapping[str, tuple[Path, str]]

    def record(self) -> dict[str, object]:
        """All that decides what it says to whoever loads it, as JSON."""
        files = {name: sha256 for name, (_, sha256) in self.files.items()}
        return {"name": self.name, "revision": self.revision, "files": files}


@dataclass(frozen=True)
class Judge:
    """A model, and our code that has it judge."""

    model: Model
    code: Path
    environment: Environment

    def record(self) -> dict[str, object]:
        """All that decides its verdict, as JSON."""
        return {
            **self.model.record(),
            "code": tree_digest(self.code),
            "environment": {
                "name": self.environment.name,
                "lock_sha256": self.environment.lock_sha256,
            },
        }

    def box(self, samples: Path, limits: Limits = NONE) -> Box:
        """The sandbox it reads `samples` in."""
        return Box(
            base=self.environment.base.path,
            closure=self.environment.closure,
            mounts=(
                Mount(self.environment.path, places.ENVIRONMENT),
                Mount(self.code, _CODE),
                *(Mount(path, f"{_MODEL}/{name}") for name, (path, _) in self.model.files.items()),
                Mount(samples, _SAMPLES),
            ),
            variables={"PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "PASSIVE"},
            cwd=places.ROOT,  # so that `judge` can be imported as a package
            limits=limits,
        )

    def argv(self, length: int) -> list[str]:
        """What it runs: rows are cut to `length` of its own tokens."""
        return [places.PYTHON, "-m", "judge", _MODEL, _SAMPLES, str(length)]


def model(project: Project, key: str) -> Model:
    """The pinned model `key`. Raises Refused where its weights are not in the cache."""
    files = ready.model_files(project, key, FILES)
    return Model(key, pins.load(project.source).model(key).revision, files)


def judge(project: Project, key: str) -> Judge:
    """The same, with our code. Raises Refused where its weights are not in the cache."""
    code = project.source / "harness" / "judge"
    return Judge(model(project, key), code, realise(project, ENVIRONMENT))


def mounts(project: Project, key: str) -> list[Mount]:
    """What shows the pinned model `key`, and no other revision of it, in a trainer's Hub cache."""
    shown = ready.shown(project, key)
    there = [(path, below) for path, below in shown if path.exists()]
    return [Mount(path, f"{places.HUGGINGFACE}/{below}") for path, below in there]

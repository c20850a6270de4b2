"""Any changed input changes the identity; no fact of the host does."""

import copy
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adaptation import ready
from harness.canonical import digest
from harness.data.ready import DataInputs
from harness.identity import differences, identify
from harness.nar import nar_sha256
from harness.nix import Base, Environment
from harness.plan import Choices, Plan, plan
from harness.project import Project
from harness.schemas import validate
from harness.sources import Mirror, commit

SOURCE = Path(__file__).parents[1]
STORE = Path("/nix/store")


@dataclass(frozen=True)
class Inputs:
    """All that `identify` looks at."""

    project: Project
    plan: Plan
    environment: Environment
    data: DataInputs
    config: bytes

    def sha256(self) -> str:
        taught = [
            ready(self.project, self.plan.recipe, teacher, self.environment)
            for teacher in self.plan.teachers
        ]
        found = identify(self.project, self.plan, self.environment, self.data, self.config, taught)
        validate(found.document, "identity", "test")
        return found.sha256


def inputs(folder: Path, choices: Choices | None = None) -> Inputs:
    """A launch from a copy of this tree, so that a test can change what it is made of."""
    source = folder / "source"
    for name in ("adapters", "builtin"):
        shutil.copytree(SOURCE / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("recipes.json", "upstreams.json", "pins.json", "flake.lock"):
        shutil.copy(SOURCE / name, source / name)
    project = Project(source=source, root=folder / "root")
    base = Base(
        path=STORE / f"{'0' * 32}-base",
        kind="captured",
        python="3.11.7",
        system="x86_64-linux",
        glibc="2.36",
        loader=STORE / "loader",
        libraries=STORE / "lib",
    )
    environment = Environment("smoke", STORE / "environment", base, "1" * 64)
    planned = plan(project, choices or Choices("mdlm", "lm1b", profile="smoke", per_device_batch=4))
    data = data_inputs(folder)
    return Inputs(project, planned, environment, data, b"config: 1\n")


def data_inputs(folder: Path, **changed: str) -> DataInputs:
    values: dict[str, object] = {name: folder / name for name in DataInputs.__dataclass_fields__}
    values |= {
        "manifest_sha256": "2" * 64,
        "tokenizer_sha256": "3" * 64,
        "tokenizer_name": "name",
        "tokenizer_revision": "4" * 40,
        **changed,
    }
    return DataInputs(**values)  # type: ignore[arg-type]


def append(name: str) -> Callable[[Inputs], Inputs]:
    """One byte more in a file of the tree."""

    def change(given: Inputs) -> Inputs:
        path = given.project.source / name
        path.write_bytes(path.read_bytes() + b"\n")
        return given

    return change


def base(**changed: object) -> Callable[[Inputs], Inputs]:
    def change(given: Inputs) -> Inputs:
        old = given.environment
        return replace(given, environment=replace(old, base=replace(old.base, **changed)))

    return change


CHANGES: dict[str, Callable[[Inputs], Inputs]] = {
    "config": lambda g: replace(g, config=g.config + b" "),
    "adapter": append("adapters/README.md"),
    "trainer": append("builtin/main.py"),
    "flake lock": append("flake.lock"),
    "lock": lambda g: replace(g, environment=replace(g.environment, lock_sha256="5" * 64)),
    "environment": lambda g: replace(g, environment=replace(g.environment, name="other")),
    "base": base(path=STORE / f"{'1' * 32}-base"),
    "base kind": base(kind="nixpkgs"),
    "manifest": lambda g: replace(g, data=data_inputs(g.project.root, manifest_sha256="6" * 64)),
    "tokenizer": lambda g: replace(g, data=data_inputs(g.project.root, tokenizer_sha256="7" * 64)),
    "revision": lambda g: replace(g, data=data_inputs(g.project.root, tokenizer_revision="8" * 40)),
    **{
        f"choice {name}": lambda g, name=name, value=value: replace(  # type: ignore[misc]
            g, plan=plan(g.project, replace(g.plan.choices, **{name: value}))
        )
        for name, value in {
            "seed": 43,
            "resume": False,
            "per_device_batch": 1,
            "devices": 2,
            "nodes": 2,
            "model": "duo",
        }.items()
    },
    "profile": lambda g: replace(
        g, plan=replace(g.plan, recipe=replace(g.plan.recipe, profile="other"))
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_input_changes_the_identity(tmp_path: Path, name: str) -> None:
    before = inputs(tmp_path)
    sha256 = before.sha256()
    assert CHANGES[name](before).sha256() != sha256


def test_a_teachers_bytes_change_the_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.adaptation.check_file", lambda *_: None)  # needs a sandbox
    teacher = tmp_path / "root" / "teacher.ckpt"
    teacher.parent.mkdir()
    teacher.write_bytes(b"a")
    given = inputs(tmp_path, Choices("fmlm", "lm1b", profile="smoke", teachers=(teacher,)))
    before = given.sha256()
    teacher.write_bytes(b"b")
    assert given.sha256() != before


def test_no_place_or_time_changes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = inputs(tmp_path / "one").sha256()
    other = inputs(tmp_path / "another place")
    for path in other.project.source.rglob("*"):
        os.utime(path, (1, 1))
    (other.project.source / "builtin" / "__pycache__").mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", "/elsewhere")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    moved = replace(other.environment, path=STORE / "elsewhere")
    assert replace(other, environment=moved).sha256() == one


LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner)
)


@given(DOCUMENTS, DOCUMENTS)
@settings(max_examples=200)
def test_two_documents_have_one_digest_only_when_they_do_not_differ(a: object, b: object) -> None:
    assert (digest(a) == digest(b)) == (not differences({"x": a}, {"x": b}))
    assert not differences(a, copy.deepcopy(a))


def test_a_near_commit_is_said_to_be_none_of_the_pins(tmp_path: Path) -> None:
    near = "5" * 40
    tree = tmp_path / "root/data/sources" / f"mdlm-{near}"
    tree.mkdir(parents=True)
    (tree / "main.py").write_text("")
    found = inputs(tmp_path, Choices("mdlm", "lm1b", mirrors={"mdlm": Mirror(None, near)}))
    document = identify(
        found.project, found.plan, found.environment, found.data, found.config
    ).document
    validate(document, "identity", "test")
    assert document["source"] == {
        "name": "mdlm",
        "commit": near,
        "pinned": commit(found.project, "mdlm"),
        "tree": nar_sha256(tree),
    }

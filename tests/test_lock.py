"""Locks: parsing, extending, the schema, and resolving with pip against a folder of wheels."""

import base64
import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from harness import lock
from harness.errors import Refused
from harness.files import sha256_file
from harness.nix import host_python

ENVS = Path(__file__).parents[1] / "envs"


def wheel(
    folder: Path, name: str, version: str, requires: str = "", tag: str = "py3-none-any"
) -> Path:
    """Write a small wheel with one module; returns its path."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{info}/METADATA": metadata + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = [f"{path},sha256={digest(text.encode())},{len(text)}" for path, text in files.items()]
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in files.items():
            archive.writestr(zipfile.ZipInfo(place), text)
        archive.writestr(
            zipfile.ZipInfo(f"{info}/RECORD"), "\n".join([*record, f"{info}/RECORD,,"])
        )
    return path


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all pip knows of."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel(folder, "leaf", "1.0")
    wheel(folder, "leaf", "2.0")
    wheel(folder, "tree", "1.0", requires="leaf")
    wheel(folder, "native", "1.0", tag="cp311-cp311-manylinux_2_28_x86_64")
    wheel(folder, "native", "1.1", tag="cp311-cp311-manylinux_2_28_aarch64")
    wheel(folder, "native", "1.2", tag="cp312-cp312-manylinux_2_28_x86_64")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def envs(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "envs"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.in").write_text(text)
    return folder


@pytest.mark.parametrize("path", sorted(ENVS.glob("*.json")), ids=lambda path: path.stem)
def test_every_lock_of_the_project_is_valid_and_names_each_project_once(path: Path) -> None:
    for one in lock.chain(ENVS, path.stem):
        names = [entry.name for entry in one.wheels]
        assert names == sorted(set(names))
        assert all(entry.file.endswith((".whl", ".tar.gz")) for entry in one.wheels)


def test_environments_extended_together_agree_on_versions() -> None:
    versions: dict[str, str] = {}
    for one in lock.chain(ENVS, "test"):
        for entry in one.wheels:
            assert versions.setdefault(entry.name, entry.version) == entry.version


def test_every_lock_has_the_file_it_came_from() -> None:
    for path in ENVS.glob("*.json"):
        request = lock.read_request(path.with_suffix(".in"))
        found = lock.load(ENVS, path.stem)
        assert found.extends == request.extends
        assert found.deviations == request.deviations
        assert {entry.name for entry in found.wheels if entry.kind == "sdist"} == request.sources


def test_a_request_is_read_with_its_deviations(tmp_path: Path) -> None:
    folder = envs(
        tmp_path,
        one="# a comment\n# deviation: tree 2 instead of 1: 1 was withdrawn\n-r cli.in\n"
        "tree==2  # why\n--no-binary Some_Tree\n",
    )
    assert lock.read_request(folder / "one.in") == lock.Request(
        requirements=("tree==2",),
        extends=("cli",),
        sources=frozenset({"some-tree"}),
        deviations=(lock.Deviation("tree 2 instead of 1", "1 was withdrawn"),),
    )


def test_a_request_with_an_address_is_refused(tmp_path: Path) -> None:
    folder = envs(tmp_path, one="--index-url file:///somewhere\n")
    with pytest.raises(Refused, match="only -r NAME.in"):
        lock.read_request(folder / "one.in")


@pytest.mark.parametrize(
    ("field", "value"),
    [("sha256", "0" * 63), ("file", "a/../b.whl"), ("kind", "egg"), ("version", "1!2")],
)
def test_a_malformed_entry_is_refused_by_its_field(tmp_path: Path, field: str, value: str) -> None:
    entry = {"name": "a", "version": "1", "file": "a.whl", "sha256": "0" * 64, "kind": "wheel"}
    record = lock.Lock("one", "3.11", lock.PLATFORM, (), (), ()).record()
    record["wheels"] = [{**entry, field: value}]
    (tmp_path / "one.json").write_text(json.dumps(record))
    with pytest.raises(Refused, match=f"wheels/0/{field}"):
        lock.load(tmp_path, "one")


def test_a_lock_under_another_name_is_refused(tmp_path: Path) -> None:
    record = lock.Lock("one", "3.11", lock.PLATFORM, (), (), ()).record()
    (tmp_path / "two.json").write_text(json.dumps(record))
    with pytest.raises(Refused, match="is the lock of one"):
        lock.load(tmp_path, "two")


def test_platform_tags_reach_down_to_the_oldest() -> None:
    tags = lock.platform_tags("manylinux_2_17_aarch64")
    assert tags[0] == "manylinux_2_17_aarch64"
    assert tags[-2:] == ["manylinux2014_aarch64", "linux_aarch64"]
    assert lock.platform_tags("manylinux_2_12_x86_64")[-3:] == [
        "manylinux2010_x86_64",
        "manylinux1_x86_64",  # PyTorch's wheels up to 2.5
        "linux_x86_64",
    ]
    with pytest.raises(Refused, match="win_amd64"):
        lock.platform_tags("win_amd64")


def resolve(folder: Path, name: str, **target: str) -> lock.Lock:
    found = lock.resolve(folder, name, [str(host_python()), "-m", "pip"], **target)
    lock.write(folder, found)
    return lock.load(folder, name)


@pytest.mark.e2e
@pytest.mark.usefixtures("index")
class TestResolving:
    """With the user's pip, from a folder of wheels."""

    def test_it_takes_the_newest_with_their_hashes(self, tmp_path: Path, index: Path) -> None:
        folder = envs(tmp_path, one="tree\n# deviation: all: it is a test\n")
        found = resolve(folder, "one")
        assert [(entry.name, entry.version) for entry in found.wheels] == [
            ("leaf", "2.0"),
            ("tree", "1.0"),
        ]
        assert found.wheels[0].sha256 == sha256_file(index / "leaf-2.0-py3-none-any.whl")
        assert found.deviations == (lock.Deviation("all", "it is a test"),)
        assert str(index) not in (folder / "one.json").read_text()

    def test_what_is_extended_keeps_its_version(self, tmp_path: Path) -> None:
        folder = envs(tmp_path, one="leaf<2\n", two="-r one.in\ntree\n")
        resolve(folder, "one")
        found = resolve(folder, "two")
        assert [entry.name for entry in found.wheels] == ["tree"]
        assert [one.name for one in lock.chain(folder, "two")] == ["one", "two"]

    def test_the_stated_platform_decides(self, tmp_path: Path) -> None:
        folder = envs(tmp_path, one="native\n")
        here = resolve(folder, "one")
        assert (here.wheels[0].version, here.system) == ("1.0", "x86_64-linux")
        there = resolve(folder, "one", platform="manylinux_2_28_aarch64")
        assert (there.wheels[0].version, there.system) == ("1.1", "aarch64-linux")

    def test_what_cannot_be_found_is_one_line(self, tmp_path: Path) -> None:
        folder = envs(tmp_path, one="tree==7\n")
        with pytest.raises(Refused, match=r"tree==7") as refused:
            resolve(folder, "one")
        assert "\n" not in str(refused.value)

"""The state of a run folder is read from its files alone, and nothing else is trusted."""

import fcntl
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from run_folders import nested

from harness import folder
from harness.canonical import digest
from harness.errors import Refused
from harness.files import part_of
from harness.folder import State
from harness.identity import Identity
from harness.json_files import publish_json

GOLDEN = Path(__file__).parent / "golden" / "identity" / "v1.json"


@pytest.fixture
def identity() -> Identity:
    document = json.loads(GOLDEN.read_text())
    return Identity(document, digest(document))


@pytest.fixture
def run(tmp_path: Path, identity: Identity) -> Path:
    """A folder that a launch has completed."""
    run = tmp_path / "run"
    (run / folder.OUTPUT / "checkpoints").mkdir(parents=True)
    publish_json(run / folder.IDENTITY, identity.document)
    (run / folder.MODEL).write_bytes(b"model")
    (run / folder.OUTPUT / "checkpoints" / "last.ckpt").write_bytes(b"model")
    finish(run, identity)
    return run


def finish(run: Path, identity: Identity) -> None:
    group = {"digest": "0" * 64, "tensors": 1, "bytes": 5}
    body: dict[str, object] = {
        "schema_version": 1,
        "identity_sha256": identity.sha256,
        "config_sha256": "1" * 64,
        "checkpoint": {
            "file": folder.MODEL,
            "from": "output/checkpoints/last.ckpt",
            "sha256": "2" * 64,
            "step": 3,
            "tensors": {"state": group},
        },
        "metrics": {},
        "completed": "2026-01-01T00:00:00Z",
        "files": [asdict(entry) for entry in folder.inventory(run)],
    }
    publish_json(run / folder.COMPLETED, {**body, "sha256": digest(body)})


def test_an_identity_written_by_the_first_version_still_reads(identity: Identity) -> None:
    from harness.schemas import validate

    validate(identity.document, "identity", str(GOLDEN))


def test_the_three_states(tmp_path: Path, run: Path, identity: Identity) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert folder.state(empty, identity) is State.EMPTY
    assert folder.state(run, identity) is State.COMPLETE
    (run / folder.COMPLETED).unlink()
    assert folder.state(run, identity) is State.STARTED


def test_what_a_kill_before_the_identity_leaves_is_empty(
    tmp_path: Path, identity: Identity
) -> None:
    with folder.locked(tmp_path):
        part_of(tmp_path / folder.IDENTITY).write_text("{")
        assert folder.state(tmp_path, identity) is State.EMPTY


def test_files_of_no_launch_are_refused_and_kept(tmp_path: Path, identity: Identity) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(Refused, match=r"holds thesis\.txt but no identity\.json"):
        folder.state(tmp_path, identity)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_another_launchs_folder_is_refused_naming_what_differs(
    run: Path, identity: Identity
) -> None:
    other = {**identity.document, "seed": 7}
    with pytest.raises(Refused, match=r"belongs to another launch \(differs in seed\)"):
        folder.state(run, Identity(other, digest(other)))


def spoil_add(run: Path) -> str:
    (run / folder.OUTPUT / "new.txt").write_text("x")
    return "output/new.txt was added"


def spoil_remove(run: Path) -> str:
    (run / folder.MODEL).unlink()
    return "model.ckpt is missing"


def spoil_change(run: Path) -> str:
    (run / folder.MODEL).write_bytes(b"medel")
    return "model.ckpt has other bytes"


def spoil_link(run: Path) -> str:
    (run / folder.OUTPUT / "link").symlink_to("/etc/passwd")
    return "is a symbolic link"


def spoil_pipe(run: Path) -> str:
    os.mkfifo(run / folder.OUTPUT / "pipe")
    return "output/pipe is no readable plain file"


def spoil_record(run: Path) -> str:
    record = json.loads((run / folder.COMPLETED).read_text())
    publish_json(run / folder.COMPLETED, {**record, "completed": "2026-01-02T00:00:00Z"})
    return "does not have its own digest"


def spoil_json(run: Path) -> str:
    (run / folder.COMPLETED).write_text("{")
    return "not valid JSON"


def spoil_record_link(run: Path) -> str:
    (run / folder.COMPLETED).unlink()
    (run / folder.COMPLETED).symlink_to("nowhere")
    return "completed.json: is a symbolic link"


SPOILS = (
    spoil_record_link,
    *(spoil_add, spoil_remove, spoil_change, spoil_link, spoil_pipe, spoil_record, spoil_json),
)


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__.removeprefix("spoil_"))
def test_a_spoilt_complete_run_is_refused_and_never_run_again(
    run: Path, identity: Identity, spoil: object
) -> None:
    said = spoil(run)  # type: ignore[operator]
    with pytest.raises(Refused, match=said.replace(".", r"\.")):
        folder.state(run, identity)


def test_a_folder_in_use_is_refused_by_a_second_launch(tmp_path: Path) -> None:
    refused = pytest.raises(Refused, match="another launch is using it")
    with folder.locked(tmp_path), refused, folder.locked(tmp_path):
        pass
    with folder.locked(tmp_path):  # free again
        pass


def test_the_lock_dies_with_its_holder(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        descriptor = os.open(tmp_path / folder.LOCK, os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os._exit(0)
    os.waitpid(child, 0)
    with folder.locked(tmp_path):
        pass


@pytest.mark.parametrize("name", [folder.IDENTITY, folder.OUTPUT, folder.MODEL, folder.STDERR])
@pytest.mark.parametrize("target", ["nowhere", "/etc"])
def test_a_link_in_a_run_folder_is_refused_before_anything_runs(
    run: Path, identity: Identity, name: str, target: str
) -> None:
    (run / folder.COMPLETED).unlink()
    if (run / name).exists():
        (run / name).rename(run.with_name("away"))
    (run / name).symlink_to(target)
    with pytest.raises(Refused, match=f"{name}: is a symbolic link"):
        folder.state(run, identity)


def test_a_name_no_record_can_hold_is_no_part_of_a_result(run: Path) -> None:
    Path(os.fsdecode(os.fsencode(run / folder.OUTPUT) + b"/bad\xff")).write_text("x")
    with pytest.raises(Refused, match="has a name that is no UTF-8"):
        folder.inventory(run)


def test_an_inventory_of_any_depth_is_taken(run: Path) -> None:
    """Python's own stack is shallower; folders with nothing in them are removed."""
    nested(run / folder.OUTPUT, 1500)
    assert [entry.path for entry in folder.inventory(run)][-1] == "output/checkpoints/last.ckpt"
    assert not (run / folder.OUTPUT / "d").exists()


def test_more_folders_than_a_trainer_leaves_are_refused(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MAX_ENTRIES", 5)
    for number in range(6):
        (run / folder.OUTPUT / str(number)).mkdir()
    with pytest.raises(Refused, match="comes to over 5 folders"):
        folder.inventory(run)


def test_a_check_finds_what_leads_elsewhere(run: Path) -> None:
    (run / folder.OUTPUT / "empty").mkdir()
    folder.check(run)
    (run / folder.OUTPUT / "link").symlink_to("/nowhere")
    with pytest.raises(Refused, match=r"output/link: is a symbolic link; move .*output away"):
        folder.check(run)
    (run / folder.OUTPUT / "link").unlink()
    (run / folder.OUTPUT / "second").hardlink_to(run / folder.MODEL)
    with pytest.raises(Refused, match="is a hard link: another name shares its bytes"):
        folder.check(run)


def test_the_inventory_is_in_path_order_without_the_record(run: Path) -> None:
    names = [entry.path for entry in folder.inventory(run)]
    assert names == ["identity.json", "model.ckpt", "output/checkpoints/last.ckpt"]


@pytest.mark.timeout(60)
def test_holes_of_a_whole_run_are_counted_together(run: Path) -> None:
    for number in range(1000):  # comparing or hashing a terabyte takes far longer
        with (run / folder.OUTPUT / f"{number:03}").open("wb") as file:
            file.truncate((1 << 30) - number)
    found, faults = folder.scan(run)
    assert f"{folder.OUTPUT}/checkpoints/last.ckpt" in found
    assert len([path for path in found if path[-3:].isdecimal()]) == 1
    assert sum("is made of holes" in fault for fault in faults.values()) == 999


@pytest.mark.timeout(60)
def test_folders_of_deep_files_are_found_without_their_square() -> None:
    deep = "/".join(["d"] * 2000)
    found = folder.folders_of([f"{deep}/{number}" for number in range(100_000)])
    assert len(found) == 2000
    assert folder.folders_of(["a/b/c", "a/d", "e"]) == ["a", "a/b"]

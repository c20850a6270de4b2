"""A hostile upstream in a whole launch: what the harness reads of it afterwards does no harm.

What it can reach while it runs: test_sandbox_hostile.
"""

import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from checkpoint_files import View, call, pickled, write, zipped
from faults.stage import Ended, Stage

from harness import complete, folder, logs
from harness.json_files import read_json
from harness.launch import Launch

pytestmark = pytest.mark.e2e

WHOLE = "completed"  # how an attempt ends that does no harm to the result
# What each attempt comes to: a result all the same, or a refusal with these words.
ATTEMPTS: dict[str, str] = {
    "link_as_checkpoint": "last.ckpt: is a symbolic link",
    "link_as_folder": "checkpoints: is a symbolic link",
    "link_as_metrics": "metrics.jsonl: cannot be opened as a plain file",
    "link_as_progress": "progress.json: is a symbolic link",
    "link_deep_below": "output/a/b/c/link: is a symbolic link",
    "hard_link": "is a hard link",
    "pipe_as_checkpoint": "last.ckpt: not a regular file",
    "pipe_as_metrics": "metrics.jsonl: not a regular file",
    "pipe_as_progress": "progress.json: is no readable plain file",
    "a_socket": "socket: is no readable plain file",
    "folder_as_checkpoint": "last.ckpt: not a regular file",
    "many_files": "comes to over 5000 files and folders",
    "many_folders": WHOLE,  # empty ones are no part of a result
    "too_many_folders": "comes to over 5000 folders",
    "deep_tree": "is a folder that cannot be read",
    "wild_name": WHOLE,
    "name_of_no_text": "has a name that is no UTF-8",
    "hollow_checkpoint": "last.ckpt: is made of holes",
    "hollow_file": "cache: is made of holes",
    "payload": "last.ckpt: posix.system: not among",
    "archive_bomb": "compressed; torch stores without compression",
    "strides_bomb": "bytes of tensors in a file of",
    "metrics_of_empty_lines": "metrics.jsonl: over 50000 lines",
    "metrics_of_one_line": WHOLE,
    "metrics_of_many_names": "names over 10000 metrics",
    "metrics_of_nests": WHOLE,
    "progress_of_nests": WHOLE,
    "endless_log": WHOLE,
    "endless_line": "the trainer ended with status 3: yyyy",
    "escapes": "the trainer ended with status 3: ",
    "daemons": WHOLE,
    "kills_all": "the trainer ended with status",
    "kills_its_parent": "the trainer ended with status",
    "closes_its_streams": WHOLE,
    "forged_records": "left no checkpoints/last.ckpt",
    "nothing": "left no checkpoints/last.ckpt",
}
# What a launch that goes on over what an attempt left comes to: it looks before it touches.
RESUMED: dict[str, str] = {
    "resumed_over_a_linked_folder": "student_checkpoints: is a symbolic link",
    "resumed_over_all_linked": "checkpoints: is a symbolic link",
    "resumed_over_a_linked_file": "0-300.ckpt: is a symbolic link",
    "resumed_over_a_second_name": "is a hard link",
    "resumed_over_a_pipe": "0-300.ckpt: is neither a plain file nor a folder",
    "resumed_over_plain_files": "interrupted; the same command goes on",
}
HELPERS = {"finish", "folders", "interrupted"}
SECRET = "the-host's-secret-0451"
# Bounds of the harness's own, lowered so that a test soon comes to them.
ENTRIES, ROWS = 5000, 50_000
MOST_MEMORY = 300 << 10  # KiB that a launcher may need on top of this process's


@pytest.fixture(scope="session")
def stage(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    work = tmp_path_factory.mktemp("hostile")
    for above in (work, *work.parents[:2]):
        above.chmod(0o755)
    stage = Stage.build(work, base, Path(__file__).with_name("hostile.py"))
    marker = work / "marker"
    bad = pickled(call("posix", "system", f"touch {marker}"))
    (stage.checkpoints / "payload").write_bytes(zipped(bad, {}))
    with zipfile.ZipFile(stage.checkpoints / "bomb", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * (256 << 20))
    strides = View("float32", "0", 1, 0, (1 << 40,), (0,))
    write(stage.checkpoints / "strides", {"state_dict": {"w": strides}}, {"0": b"\0" * 4})
    return stage


@pytest.fixture
def launch(
    stage: Stage, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Launch]:
    monkeypatch.setattr(folder, "MAX_ENTRIES", ENTRIES)
    monkeypatch.setattr(complete, "MAX_ROWS", ROWS)
    root = stage.root(request.node.callspec.params["attempt"])
    secret = root / "secret"
    secret.write_text(SECRET)
    victim = root / "victim"
    victim.mkdir()
    for name, step in (("0-300.ckpt", 300), ("0-500.ckpt", 500), ("last.ckpt", 500)):
        (victim / name).write_bytes((stage.checkpoints / f"{step}.ckpt").read_bytes())
    paths = {"secret": str(secret), "victim": str(victim)}
    yield stage.launch(root, attempt=root.name, **paths, entries=ENTRIES, rows=ROWS)
    # What an attempt leaves may be deeper than Python's own removal, pytest's too, can follow.
    subprocess.run(["rm", "-rf", root], check=True)


def test_every_attempt_is_tried() -> None:
    text = Path(__file__).with_name("hostile.py").read_text()
    written = set(re.findall(r"^def (\w+)", text, re.MULTILINE)) - HELPERS
    assert written == {*ATTEMPTS, *RESUMED}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_launch_of_it_ends_well_or_is_refused(stage: Stage, launch: Launch, attempt: str) -> None:
    run, before = launch.plan.run, _resident()
    ended = stage.train(launch)
    assert ended.memory - before < MOST_MEMORY
    assert _harmless(ended)
    assert ATTEMPTS[attempt] in ended.said
    whole = ATTEMPTS[attempt] == WHOLE
    assert (ended.status == 0) is whole
    found = stage.audit(run)
    assert found is not None
    assert (found.exit_code == 0) is whole, [c for c in found.claims if c.why]
    assert not _harmless_text(repr(found.record()))
    _bounded(run)
    again = stage.train(launch)
    assert _harmless(again)
    assert (again.status == 0) is whole
    assert not (stage.work / "marker").exists()


@pytest.mark.parametrize("attempt", RESUMED)
def test_a_launch_that_goes_on_over_it_touches_nothing_else(
    stage: Stage, launch: Launch, attempt: str
) -> None:
    root = launch.project.root
    before = _contents(root / "victim")
    launch = _in_rounds(launch)
    first, again = stage.train(launch), stage.train(launch)
    for ended in (first, again):
        assert _harmless(ended)
        assert ended.status != 0
    assert "interrupted; the same command goes on" in first.said
    assert RESUMED[attempt] in again.said
    assert _contents(root / "victim") == before
    _bounded(launch.plan.run)
    record = read_json(launch.plan.run / folder.PROVENANCE)
    assert isinstance(record, dict)
    at = [attempt.get("resumed_at") for attempt in record["attempts"]]
    assert at == ([None, 300] if attempt == "resumed_over_plain_files" else [None])


def _in_rounds(launch: Launch) -> Launch:
    """The same launch, of a trainer that goes on at a round's end only, as upstreams' do."""
    recipe = launch.plan.recipe
    fields = {**recipe.fields, "steps_per_round": 300}
    recipe = replace(recipe, source="mdlm", fields=fields)
    return replace(launch, plan=replace(launch.plan, recipe=recipe))


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _harmless(ended: Ended) -> bool:
    """Whether a command said nothing but lines of text, and gave its reason."""
    assert ended.fault() is None
    assert not _harmless_text(ended.said)
    assert SECRET not in ended.said
    return True


def _harmless_text(text: str) -> str:
    """The characters of a text that a terminal could act on."""
    return "".join(c for c in text if not c.isprintable() and c != "\n")


def _bounded(run: Path) -> None:
    """The harness's own files are small, and the secret is in none that it wrote or copied."""
    for entry in run.iterdir():
        if entry.is_file():
            assert entry.stat().st_size <= logs.MOST + (1 << 20), entry
            with entry.open("rb") as file:
                assert SECRET.encode() not in file.read(8 << 20)
    if (run / folder.COMPLETED).exists():
        assert (run / folder.COMPLETED).stat().st_size < 1 << 20


def _resident() -> int:
    """KiB of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10

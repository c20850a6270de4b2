"""Logs are shown line by line, as they grow, and say nothing to a terminal."""

import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import tail
from harness.errors import Refused
from harness.logs import Log
from harness.project import Project
from harness.slurm.files import Submission
from harness.tail import follow, of_run


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "stdout.log", tmp_path / "stderr.log"]
    made[0].write_text("one\ntwo\n")
    made[1].write_text("three")
    return made


def test_each_log_has_its_header(logs: list[Path]) -> None:
    assert list(follow(lambda: logs, None, False)) == [
        "==> stdout.log <==", "one", "two", "==> stderr.log <==", "three",
    ]  # fmt: skip


def test_only_the_last_lines(logs: list[Path]) -> None:
    assert list(follow(lambda: logs, 1, False))[1] == "two"
    assert list(follow(lambda: logs, 0, False)) == []


def test_what_a_terminal_would_act_on_is_an_escape(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    log.write_bytes(b"\x1b[2J\x9b\x07a\tb\r\n\xff\xc3\n")
    _, first, second = follow(lambda: [log], None, False)
    assert first == "\\x1b[2J\ufffd\\x07a\tb"
    assert second == "\ufffd\ufffd"


def test_following_goes_on_with_what_comes(
    logs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new = logs[0].with_name("new.log")
    later = iter(
        [
            lambda: logs[0].open("a").write("four\nfi"),
            lambda: logs[0].open("a").write("ve\n"),
            lambda: logs[0].write_text("replaced\n"),
            lambda: new.write_text("another\n"),
        ]
    )
    monkeypatch.setattr(tail.time, "sleep", lambda seconds: next(later)())
    lines = follow(lambda: [p for p in (*logs, new) if p.exists()], None, True)
    found = []
    with pytest.raises(RuntimeError):  # the last sleep has nothing more to do
        for line in lines:
            found.append(line)
    assert found == [
        "==> stdout.log <==", "one", "two", "four", "five", "replaced",
        "==> new.log <==", "another",
    ]  # fmt: skip


def test_nothing_is_lost_where_a_log_is_turned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stdout.log"
    written = [f"line {number}" for number in range(40)]
    with Log(path, most=100) as log:
        later = iter(written)

        def write(seconds: float) -> None:
            for line in (next(later), next(later, "")):  # the second may go to the new file
                log.write(f"{line}\n".encode() if line else b"")

        monkeypatch.setattr(tail.time, "sleep", write)
        found = []
        with pytest.raises(RuntimeError):
            for line in follow(lambda: [path], None, True):
                found.append(line)
    assert [line for line in found if line.startswith("line ")] == written
    assert found.count("harness: continued from stdout.log.1") > 2


def test_a_line_without_end_is_shown_in_parts(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    log.write_bytes(b"x" * 300_000)
    lines = list(follow(lambda: [log], None, False))
    assert 3 < len(lines) < 20
    assert all(len(line) <= 1 << 14 for line in lines)


def test_a_runs_logs_are_its_trainers_and_its_last_jobs(tmp_path: Path) -> None:
    project = Project(source=tmp_path, root=tmp_path)
    run = project.runs / "a"
    run.mkdir(parents=True)
    (tmp_path / "slurm").mkdir()
    for job in ("7", "8"):
        Submission(
            job=job, run=run, identity=None, model="mdlm", dataset="lm1b", seed=1, nodes=1,
            gpus_per_node=1, after=(), submitted="2026-01-01T00:00:00Z",
        ).publish(project)  # fmt: skip
        (tmp_path / "slurm" / f"{job}_0_log.err").write_text("")
    (run / "stdout.log").write_text("")
    for name in (run, Path("a")):
        assert [path.name for path in of_run(project, name)] == ["8_0_log.err", "stdout.log"]


def test_what_was_never_launched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no run folder, and no job"):
        of_run(Project(source=tmp_path, root=tmp_path), Path("nothing"))


def test_a_link_in_the_place_of_a_log_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    log.symlink_to("/etc/passwd")
    with pytest.raises(Refused, match="cannot be opened as a plain file"):
        list(follow(lambda: [log], None, False))


def test_only_the_end_of_a_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "stdout.log"
    with log.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, 2)
        file.write(b"\none\ntwo\n")
    shown: list[bytes] = []
    monkeypatch.setattr(tail, "_shown", lambda line: shown.append(line) or line.decode()[:9])
    assert list(follow(lambda: [log], 2, False))[1:] == ["one", "two"]
    assert len(shown) == 2


@given(st.lists(st.sampled_from(["", "a", "c" * 3000]), max_size=12),
       st.booleans(), st.integers(0, 14))  # fmt: skip
def test_the_last_lines_are_those_of_all_lines(texts: list[str], ended: bool, last: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        log = Path(made) / "stdout.log"
        log.write_text("\n".join(texts) + ("\n" if ended and texts else ""))
        whole = list(follow(lambda: [log], None, False))[1:]
        found = list(follow(lambda: [log], last, False))[1:]
    assert found == whole[len(whole) - min(last, len(whole)) :]


def test_memory_does_not_grow_with_a_log(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    log.write_text("a line of some length\n" * 200_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in follow(lambda: [log], None, False)) == 200_001
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("given", ["", "/", "."])
def test_a_folder_that_is_no_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused, match="no run folder"):
        of_run(Project(source=tmp_path, root=tmp_path), Path(given))

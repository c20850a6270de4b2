"""The records a trainer leaves."""

import json
from pathlib import Path

from records import Metrics, Progress


def test_records_beyond_the_checkpoint_and_a_torn_line_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path, 0)
    for step in (0, 2, 4, 6):
        metrics.add(step=step, loss=step / 3)
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"step": 8, "lo')
    metrics = Metrics(path, 4)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [0, 2, 4]
    metrics.add(step=6, loss=6 / 3)
    assert path.read_bytes() == whole
    Metrics(path, 0)
    assert path.read_bytes() == b""


def test_progress_is_one_json_object_and_not_rewritten_at_every_step(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    progress = Progress(path, 10, 1000, 64)
    progress.show(11, 2.0)
    record = json.loads(path.read_text())
    assert record["step"] == 11
    assert record["max_steps"] == 1000
    assert record["tokens_per_second"] > 0
    progress.EVERY = 1e9
    progress.show(12, 1.0)
    assert json.loads(path.read_text())["step"] == 11
    progress.show(1000, 1.0)  # the last one is always shown
    assert json.loads(path.read_text())["seconds_left"] == 0

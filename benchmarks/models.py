"""All ten models over several seeds: what training gains, and few steps of students.

Trains each model on lm1b by the study profile through the command line (finished runs are
skipped), reads the held-out metric at the start and at the end, draws rows from each distilled
model and its teacher in the same few steps, and has a causal model, trained on the same corpus,
judge both. Prints tables in Markdown: mean and standard deviation over the seeds.

    ./bootstrap test benchmarks/models.py ROOT [SEED ...]
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.recipes import load

SOURCE = Path(__file__).parents[1]
PROFILE = "study"
JUDGE_STEPS, ROWS = 1500, 400
BASES = ("mdlm", "duo", "flm", "candi", "rdlm")
# Each with its teacher, and the steps in which both are sampled.
STUDENTS = {
    "mdlm_sdtt": ("mdlm", 4),
    "mdlm_di4c": ("mdlm", 2),
    "duo_dcd": ("duo", 4),
    "duo_di4c": ("duo", 2),
    "fmlm": ("flm", 2),
}


def harness(root: Path, *words: str) -> str:
    """What a harness command prints; its progress goes to the terminal."""
    command = [sys.executable, "-m", "harness", "--root", str(root), *words]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return done.stdout


def folder(root: Path, model: str, seed: int) -> Path:
    """Where the smoke run of `model` lies."""
    return root / "runs" / f"{model}-lm1b-study-seed{seed}"


def trained(root: Path, model: str, seed: int) -> tuple[str, float, float]:
    """Train, or find trained: the held-out metric's name, and its first and last value."""
    chain = ("--with-teacher",) if model in STUDENTS else ()
    # A teacher that is adapted can give its averaged weights, which are what it is sampled with.
    adapted = "transformation" in load(SOURCE).recipe(model, "lm1b", PROFILE).fields
    chain += ("--teacher-weights", "ema") if adapted else ()
    harness(root, "train", model, "lm1b", "--profile", PROFILE, "--seed", str(seed), *chain)
    lines = (folder(root, model, seed) / "output" / "metrics.jsonl").read_text().splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for name in ("validation_perplexity", "validation_loss"):
        values = [row[name] for row in rows if row.get(name) is not None]
        if values:
            return name.replace("_", " "), values[0], values[-1]
    raise SystemExit(f"{model}: no held-out metric in its run")


def main_py(root: Path, *overrides: str) -> str:
    """What the built-in trainer prints, on the corpus that `root` holds."""
    (tokenizer,) = root.glob("data/raw/huggingface/hub/models--smoke-bert/snapshots/*")
    data = root / "data" / "training" / "lightning" / "smoke-lm1b-bert-128"
    command = [
        *(sys.executable, str(SOURCE / "builtin" / "main.py")),
        *("algo=ar", "model=tiny", "data=lm1b", f"data.cache_dir={data}"),
        *(f"data.tokenizer_name_or_path={tokenizer}", "trainer.accelerator=cpu"),
        *("trainer.precision=32", "optim.lr=0.001", "lr_scheduler.num_warmup_steps=50"),
        *("loader.global_batch_size=16", "loader.batch_size=16", "training.ema=0.99"),
        *(f"trainer.max_steps={JUDGE_STEPS}", f"trainer.val_check_interval={JUDGE_STEPS}"),
        *(f"hydra.run.dir={root / 'judge'}", *overrides),
    ]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def judge(root: Path) -> Path:
    """The checkpoint of a causal model of the corpus, trained once."""
    path = root / "judge" / "checkpoints" / "last.ckpt"
    if not path.exists():
        main_py(root, f"callbacks.checkpoint_every_n_steps.every_n_train_steps={JUDGE_STEPS}")
    return path


def judged(root: Path, model: str, seed: int, steps: int) -> tuple[float, float]:
    """Generative perplexity and entropy of rows that a run draws in `steps` steps."""
    rows = root / f"{model}-{seed}-{steps}.jsonl"
    options = ("--steps", str(steps), "--count", str(ROWS), "--json")
    rows.write_text(harness(root, "sample", str(folder(root, model, seed)), *options))
    mode = ("mode=gen_ppl_eval", f"eval.generated_samples_path={rows}")
    found = json.loads(main_py(root, *mode, f"eval.checkpoint_path={judge(root)}"))
    return found["generative_perplexity"], found["entropy"]


def spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4g} ± {deviation:.2g}"


def main(root: Path, seeds: list[int]) -> None:
    """Both tables."""
    print(f"| model | metric | at the start | at the end | seeds {seeds} |\n" + "| --- " * 5 + "|")
    for model in (*BASES, *STUDENTS):
        found = [trained(root, model, seed) for seed in seeds]
        first, last = ([row[k] for row in found] for k in (1, 2))
        better = f"{sum(b < a for a, b in zip(first, last, strict=True))} of {len(seeds)} better"
        print(
            f"| {model} | {found[0][0]} | {spread(first)} | {spread(last)} | {better} |", flush=True
        )
    print(
        "\n| student (teacher) | steps | teacher | student | entropies | |\n" + "| --- " * 6 + "|"
    )
    for model, (teacher, steps) in STUDENTS.items():
        both = [[judged(root, name, seed, steps) for seed in seeds] for name in (teacher, model)]
        perplexities = [[value for value, _ in rows] for rows in both]
        entropies = " / ".join(spread([value for _, value in rows]) for rows in both)
        won = sum(student < own for own, student in zip(*perplexities, strict=True))
        cells = (f"{model} ({teacher})", steps, *map(spread, perplexities), entropies)
        print(f"| {' | '.join(map(str, cells))} | {won} of {len(seeds)} better |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), [int(seed) for seed in sys.argv[2:]] or [42, 1, 2])

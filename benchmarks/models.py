"""All ten models over several seeds: what training gains, and few steps of students.

Trains each model by the study profile through the command line (finished runs are skipped), reads
the held-out metric at the start and at the end, draws rows from each distilled model and its
teacher in the same few steps, and has a causal model, trained on the same corpus, judge both.
Prints tables in Markdown: mean and standard deviation over the seeds.

    ./bootstrap test benchmarks/models.py ROOT [SEED ...]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness.recipes import load

SOURCE = Path(__file__).parents[1]
PROFILE = "study"
JUDGE_STEPS, ROWS = 1500, 400
BASES = ("mdlm", "duo", "flm", "candi", "rdlm")
# What a student from Duo learns from: Duo's weights as a masked model, which is another model.
ADAPTED = "adapted duo"
# Each with its dataset, its teacher, and the steps in which both are sampled. A mixture needs what
# one number a row can tie together: rows of owt hold one story, those of lm1b many sentences.
STUDENTS = (
    ("mdlm_sdtt", "lm1b", "mdlm", 4),
    ("mdlm_di4c", "lm1b", "mdlm", 2),
    ("mdlm_di4c", "owt", "mdlm", 1),
    ("mdlm_di4c", "owt", "mdlm", 2),
    ("duo_dcd", "lm1b", "duo", 4),
    ("duo_di4c", "lm1b", "duo", 2),
    ("duo_di4c", "owt", ADAPTED, 1),
    ("duo_di4c", "owt", ADAPTED, 2),
    ("duo_di4c", "owt", "duo", 1),
    ("duo_di4c", "owt", "duo", 2),
    ("fmlm", "lm1b", "flm", 2),
)
# How the causal judge of each dataset is told of its rows.
ROWS_OF = {"lm1b": ("data=lm1b",), "owt": ("data=openwebtext-split", "model.length=256")}
CACHES = {"lm1b": "smoke-lm1b-bert-128", "owt": "study-owt-gpt2-256"}
TOKENIZERS = {"lm1b": "smoke-bert", "owt": "smoke-gpt2"}


def harness(root: Path, *words: str) -> str:
    """What a harness command prints; its progress goes to the terminal."""
    command = [sys.executable, "-m", "harness", "--root", str(root), *words]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return done.stdout


def folder(root: Path, model: str, dataset: str, seed: int) -> Path:
    """Where the run of `model` lies."""
    return root / "runs" / f"{model}-{dataset}-{PROFILE}-seed{seed}"


def trained(root: Path, model: str, dataset: str, seed: int) -> tuple[str, float, float]:
    """Train, or find trained: the held-out metric's name, and its first and last value."""
    fields = load(SOURCE).recipe(model, dataset, PROFILE).fields
    chain = ("--with-teacher",) if any(name == model for name, *_ in STUDENTS) else ()
    # A teacher that is adapted can give its averaged weights, which are what it is sampled with.
    chain += ("--teacher-weights", "ema") if "transformation" in fields else ()
    harness(root, "train", model, dataset, "--profile", PROFILE, "--seed", str(seed), *chain)
    metrics = folder(root, model, dataset, seed) / "output" / "metrics.jsonl"
    rows: list[dict[str, Any]] = [json.loads(line) for line in metrics.read_text().splitlines()]
    for name in ("validation_perplexity", "validation_nll", "validation_loss"):
        values = [row[name] for row in rows if name in row]
        if values and None not in values:  # a perplexity too large for a number
            return name.replace("_", " "), values[0], values[-1]
    raise SystemExit(f"{model}: no held-out metric in its run")


def tokenizer(root: Path, dataset: str) -> Path:
    """Where the tokenizer of a dataset lies."""
    models = root / "data" / "raw" / "huggingface" / "hub"
    (found,) = models.glob(f"models--{TOKENIZERS[dataset]}/snapshots/*")
    return found


def program(name: str, *words: str) -> str:
    """What a built-in trainer prints."""
    command = [sys.executable, str(SOURCE / "builtin" / name), *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def causal(root: Path, dataset: str, *overrides: str) -> str:
    """What the trainer of the causal judge prints, on the corpus that `root` holds."""
    data = root / "data" / "training" / "lightning" / CACHES[dataset]
    return program(
        "main.py",
        *("algo=ar", "model=tiny", *ROWS_OF[dataset], f"data.cache_dir={data}"),
        *(f"data.tokenizer_name_or_path={tokenizer(root, dataset)}", "trainer.accelerator=cpu"),
        *("trainer.precision=32", "optim.lr=0.001", "lr_scheduler.num_warmup_steps=50"),
        *("loader.global_batch_size=16", "loader.batch_size=16", "training.ema=0.99"),
        *(f"trainer.max_steps={JUDGE_STEPS}", f"trainer.val_check_interval={JUDGE_STEPS}"),
        *(f"hydra.run.dir={root / 'judge' / dataset}", *overrides),
    )


def judge(root: Path, dataset: str) -> Path:
    """The checkpoint of a causal model of the corpus, trained once."""
    path = root / "judge" / dataset / "checkpoints" / "last.ckpt"
    if not path.exists():
        every = f"callbacks.checkpoint_every_n_steps.every_n_train_steps={JUDGE_STEPS}"
        causal(root, dataset, every)
    return path


def drawn(root: Path, model: str, dataset: str, seed: int, steps: int) -> str:
    """Rows that a run draws in `steps` steps, a JSON object a line."""
    run = folder(root, model, dataset, seed)
    return harness(root, "sample", str(run), "--steps", str(steps), "--count", str(ROWS), "--json")


def drawn_by_adapted(root: Path, model: str, dataset: str, seed: int, steps: int) -> str:
    """The same of the adapted weights that a run of `model` learnt from, as a masked model."""
    run = folder(root, model, dataset, seed)
    mounts = json.loads((run / "provenance.json").read_text())["paths"]["mounts"]
    return program(
        "rounds.py",
        *("--config-path", str(run), "--config-name", "config", "is_di4c=false", "mode=sample"),
        f"eval.checkpoint_path={mounts['/run/harness/teacher/model.ckpt']}",
        f"data.tokenizer_name_or_path={tokenizer(root, dataset)}",
        *(f"sampling.steps={steps}", f"sampling.num_samples={ROWS}"),
        f"hydra.run.dir={root / 'judge' / 'adapted'}",
    )


def judged(root: Path, dataset: str, rows: str) -> tuple[float, float]:
    """Generative perplexity and entropy of rows."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(rows)
        file.flush()
        mode = ("mode=gen_ppl_eval", f"eval.generated_samples_path={file.name}")
        told = causal(root, dataset, *mode, f"eval.checkpoint_path={judge(root, dataset)}")
    found = json.loads(told)
    return found["generative_perplexity"], found["entropy"]


def spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4g} ± {deviation:.2g}"


def gains(root: Path, seeds: list[int]) -> None:
    """The table of what training gains."""
    print(f"| model | metric | at the start | at the end | seeds {seeds} |\n" + "| --- " * 5 + "|")
    pairs = [(model, "lm1b") for model in BASES]
    pairs += dict.fromkeys((model, dataset) for model, dataset, *_ in STUDENTS)
    for model, dataset in pairs:
        found = [trained(root, model, dataset, seed) for seed in seeds]
        first, last = ([row[k] for row in found] for k in (1, 2))
        better = f"{sum(b < a for a, b in zip(first, last, strict=True))} of {len(seeds)} better"
        cells = (f"{model} on {dataset}", found[0][0], spread(first), spread(last), better)
        print(f"| {' | '.join(cells)} |", flush=True)


def students(root: Path, seeds: list[int]) -> None:
    """The table of students beside their teachers."""
    print("| student (teacher) | steps | teacher | student | entropies | |\n" + "| --- " * 6 + "|")
    for model, dataset, teacher, steps in STUDENTS:
        of_teacher = (drawn_by_adapted, model) if teacher == ADAPTED else (drawn, teacher)
        both = [
            [judged(root, dataset, draw(root, name, dataset, seed, steps)) for seed in seeds]
            for draw, name in (of_teacher, (drawn, model))
        ]
        perplexities = [[value for value, _ in rows] for rows in both]
        entropies = " / ".join(spread([value for _, value in rows]) for rows in both)
        ratios = [f"{student / own:.2f}" for own, student in zip(*perplexities, strict=True)]
        names = f"{model} ({teacher}) on {dataset}"
        cells = (names, steps, *map(spread, perplexities), entropies, ", ".join(ratios))
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main(root: Path, seeds: list[int]) -> None:
    """Both tables."""
    gains(root, seeds)
    print()
    students(root, seeds)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), [int(seed) for seed in sys.argv[2:]] or [42, 1, 2])

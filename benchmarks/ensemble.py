"""Do students beat their twins? All arms of a profile's recipes, for several seeds, in one table.

    python benchmarks/ensemble.py --root ROOT --seeds 42 43 44 [--arms geo-s1 mix-s1 ...]

Trains, outside the sandbox and with the recipes' own settings, the four teachers of each seed and
then its students, in ROOT/ensemble/ (finished ones are kept), and compares what they make of the
held-out text: bits per character of student minus twin, mean and standard deviation over all
seeds and arms of a pool. The data must be prepared: harness prepare jaweb --profile smoke. One core
takes about a quarter of an hour a seed; --set device.threads=1 where it has no second.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(SOURCE), str(SOURCE / "builtin")]

from ensemble import start  # noqa: E402
from ensemble.settings import MEMBERS, POOLS  # noqa: E402
from ensemble.stores import DOMAINS  # noqa: E402
from hydra import compose, initialize_config_dir  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402

from harness.recipes import load  # noqa: E402


def train(given: argparse.Namespace, model: str, seed: int) -> dict[str, float]:
    """Train a recipe unless that is done; what it makes of the held-out text at its end."""
    root, recipe = given.root, load(SOURCE).recipe(model, "jaweb", given.profile)
    here = root / "ensemble" / str(seed)
    summary = here / model / "summary.json"
    if not summary.exists() or json.loads(summary.read_text())["status"] == "interrupted":
        values = {
            "output": str(here / model),
            "data_cache": str(root / "data" / "training" / "stores" / recipe.processed),
            "seed": str(seed),
            "per_device_batch_size": str(recipe.choices["per_device_batch"]),
            **dict.fromkeys(("devices", "nodes", "accumulation"), "1"),
            "resume": "true",
            "root": str(here),
        }
        overrides = [one for one in recipe.overrides(values) if not one.startswith("hydra.")]
        for member in MEMBERS if "pool" in recipe.fields else ():
            path = here / f"twin-{member}" / "checkpoints" / "last.ckpt"
            overrides.append(f"distillation.teachers.{member}.file={path}")
        with initialize_config_dir(str(SOURCE / "builtin/ensemble/configs"), version_base=None):
            config = compose("config", [*overrides, *given.changes])
        if status := start.run(OmegaConf.to_container(config, resolve=True)):
            sys.exit(status)
    found = json.loads(summary.read_text())
    return found["final"] or found["epochs"][-1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--profile", choices=("smoke", "study"), default="study")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44])
    arms = [f"{pool}-{member}" for pool in POOLS for member in MEMBERS]
    parser.add_argument("--arms", nargs="+", choices=arms, default=arms)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", dest="changes")
    given = parser.parse_args()
    differences: dict[tuple[str, str], list[float]] = {}
    for seed in given.seeds:
        twins = {member: train(given, f"twin-{member}", seed) for member in MEMBERS}
        for arm in given.arms:
            pool, member = arm.split("-")
            student = train(given, f"ensemble-{arm}", seed)
            for domain in DOMAINS:
                name = f"{domain}_bits_per_character"
                ours, theirs = student[name], twins[member][name]
                differences.setdefault((pool, domain), []).append(ours - theirs)
                print(
                    f"seed {seed} {arm:7} {domain:7} student {ours:.4f} twin {theirs:.4f} "
                    f"difference {ours - theirs:+.4f}",
                    flush=True,
                )
    for (pool, domain), values in sorted(differences.items()):
        spread = statistics.stdev(values) if len(values) > 1 else float("nan")
        print(
            f"{pool} {domain}: {statistics.mean(values):+.4f} +- {spread:.4f} bits per character "
            f"({len(values)} pairs, {sum(value < 0 for value in values)} better)"
        )


if __name__ == "__main__":
    main()

"""The pooled loss beside a plain one: four log-softmaxes, stacked, pooled, KL; time and memory.

    python benchmarks/pooled_loss.py [--targets 1024] [--width 384] [--rounds 5] [--threads 2]

Both start from the states of the student and of four teachers and end with the gradient of the
student's states and embedding. Peak memory is each one's own process's, above what it held before
the first step (states, embeddings, and their gradients, which both need).
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(SOURCE / "builtin")]
VOCABULARIES, POOLS, WEIGHT = (16_384, 50_257), ("geo", "mix"), 0.5
FLOOR = "products"  # the matrix products that any way to the gradient needs


def measure(kind: str, pool: str, vocabulary: int, given: argparse.Namespace) -> dict[str, float]:
    """Best seconds of a step, and the bytes it needed at most, of one way, in this process."""
    import torch
    from ensemble.loss import Head, pooled
    from torch import Tensor
    from torch.nn import functional as F

    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    shape = (given.targets, given.width), (vocabulary, given.width)
    student = Head(*(torch.randn(*one).mul_(0.1).requires_grad_() for one in shape))
    teachers = [Head(*(torch.randn(*one).mul_(0.1) for one in shape)) for _ in range(4)]
    labels = torch.randint(vocabulary, (given.targets,))
    for part in student:
        part.grad = torch.zeros_like(part)

    def plain() -> Tensor:
        log_q = F.log_softmax(student.states @ student.weight.T, dim=-1)
        with torch.no_grad():
            log_p = torch.stack([F.log_softmax(s @ w.T, dim=-1) for s, w in teachers])
            if pool == "geo":
                aim = F.log_softmax(log_p.mean(dim=0), dim=-1)
            else:
                aim = torch.logsumexp(log_p, dim=0) - torch.tensor(4.0).log()
        label = F.nll_loss(log_q, labels, reduction="sum")
        return (1 - WEIGHT) * label + WEIGHT * F.kl_div(
            log_q, aim, reduction="sum", log_target=True
        )

    def ours() -> Tensor:
        return pooled(student, labels, teachers, pool, WEIGHT, given.rows)[0]

    def products() -> Tensor:
        for head in (student, *teachers):
            logits = head.states.detach() @ head.weight.detach().T
        logits @ student.weight.detach()
        logits.T @ student.states.detach()
        return student.states.sum() + student.weight.sum()

    way = {"plain": plain, "ours": ours, FLOOR: products}[kind]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    best = float("inf")
    for _ in range(given.rounds):
        start = time.perf_counter()
        way().backward()
        best = min(best, time.perf_counter() - start)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": best, "bytes": 1024.0 * (after - before)}


def main() -> None:
    """Each way in a process of its own, in turns; the best of each, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=1024)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", nargs=3, metavar=("KIND", "POOL", "VOCABULARY"))
    given = parser.parse_args()
    if given.one:
        kind, pool, vocabulary = given.one
        print(json.dumps(measure(kind, pool, int(vocabulary), given)))
        return
    for vocabulary in VOCABULARIES:
        for pool in POOLS:
            found: dict[str, list[dict[str, float]]] = {"plain": [], "ours": [], FLOOR: []}
            for _ in range(given.turns):
                for kind, values in found.items():
                    words = [sys.executable, __file__, *sys.argv[1:]]
                    words += ["--one", kind, pool, str(vocabulary)]
                    done = subprocess.run(words, check=True, capture_output=True, text=True)
                    values.append(json.loads(done.stdout))
            time_of = {kind: min(one["seconds"] for one in found[kind]) for kind in found}
            held = {kind: min(one["bytes"] for one in found[kind]) for kind in found}
            print(
                f"vocabulary {vocabulary} {pool}: plain {time_of['plain']:.3f} s "
                f"{held['plain'] / 1e6:.0f} MB, ours {time_of['ours']:.3f} s "
                f"{held['ours'] / 1e6:.0f} MB, matrix products alone {time_of[FLOOR]:.3f} s; "
                f"speed {time_of['plain'] / time_of['ours']:.2f}x, "
                f"memory {held['ours'] / held['plain']:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""The judge of samples: a GPT-2 against another reading of its files, and what is counted."""

import json
import math
import subprocess
import sys
from pathlib import Path

import gpt2_files
import numpy as np
import pytest
import torch
from gpt2_files import END, SHAPE

from harness.judge.gpt2 import GPT2
from harness.judge.perplexity import entropy, generative_perplexity

SOURCE = Path(__file__).parents[1]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return gpt2_files.write(tmp_path / "snapshot")


def by_hand(snapshot: Path, row: list[int]) -> np.ndarray:
    """Scores (L, V) of one row from the paper's formulas, in float64, one place and head a time."""
    found = {name: t.double().numpy() for name, t in gpt2_files.tensors(0.3).items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        x = (x - x.mean()) / np.sqrt(x.var() + SHAPE["layer_norm_epsilon"])
        return x * found[f"{name}.weight"] + found[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ found[f"{name}.weight"] + found[f"{name}.bias"]

    width = SHAPE["n_embd"]
    size = width // SHAPE["n_head"]
    hidden = [found["wte.weight"][id_] + found["wpe.weight"][at] for at, id_ in enumerate(row)]
    for block in range(SHAPE["n_layer"]):
        inner = [linear(norm(x, f"h.{block}.ln_1"), f"h.{block}.attn.c_attn") for x in hidden]
        for at in reversed(range(len(row))):
            mixed = []
            for start in range(0, width, size):
                q, k, v = (slice(start + n * width, start + n * width + size) for n in range(3))
                scores = np.array([inner[at][q] @ inner[t][k] for t in range(at + 1)])
                shares = np.exp(scores / math.sqrt(size))
                shares /= shares.sum()
                mixed.append(sum(s * inner[t][v] for t, s in enumerate(shares)))
            hidden[at] = hidden[at] + linear(np.concatenate(mixed), f"h.{block}.attn.c_proj")
        for at, x in enumerate(hidden):
            y = linear(norm(x, f"h.{block}.ln_2"), f"h.{block}.mlp.c_fc")
            y = y / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
            hidden[at] = x + linear(y, f"h.{block}.mlp.c_proj")
    return np.stack([norm(x, "ln_f") @ found["wte.weight"].T for x in hidden])


def test_the_model_is_the_papers(snapshot: Path) -> None:
    rows = [[5, 200, END, 5, 5, 17, 99], [1, 2, 3, 4, 5, 6, 7]]
    found = GPT2(snapshot).logits(torch.tensor(rows)).double().numpy()
    for one, row in zip(found, rows, strict=True):
        np.testing.assert_allclose(one, by_hand(snapshot, row), rtol=1e-4, atol=1e-4)


def test_the_model_is_the_librarys(snapshot: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(snapshot).eval()
    rows = torch.randint(0, END, (3, SHAPE["n_positions"]))
    with torch.no_grad():
        expected = theirs(rows).logits
    torch.testing.assert_close(GPT2(snapshot).logits(rows), expected, rtol=1e-4, atol=1e-4)


def test_a_model_that_knows_nothing_finds_every_token_equally_likely(tmp_path: Path) -> None:
    model = GPT2(gpt2_files.write(tmp_path / "flat", spread=0.0))
    value, count = generative_perplexity(model, [[1, 2, 3], [4, 5]])
    assert count == 3
    assert value == pytest.approx(END + 1)


def test_what_counts(snapshot: Path) -> None:
    """Each token but a row's first; end-of-text marks once; long rows in parts; mean over all."""
    model = GPT2(snapshot)
    row = [7, END, END, 9, END, 3]

    def nll(tokens: list[int]) -> list[float]:
        scores = model.logits(torch.tensor([tokens]))[0].log_softmax(-1)
        return [-scores[at, id_].item() for at, id_ in enumerate(tokens[1:])]

    told = nll(row)
    counted = [told[0], told[2], told[4]]
    long = list(range(SHAPE["n_positions"] + 5))
    parts = [long[: SHAPE["n_positions"]], long[SHAPE["n_positions"] :]]
    everything = [*counted, *nll(parts[0]), *nll(parts[1])]
    value, count = generative_perplexity(model, [row, long, [1], []])
    assert count == len(everything)
    assert value == pytest.approx(math.exp(sum(everything) / len(everything)), rel=1e-5)
    with pytest.raises(ValueError, match="no row has a token"):
        generative_perplexity(model, [[1]])


def test_entropy() -> None:
    assert entropy([[1, 2, 3, 4]]) == pytest.approx(math.log(4))
    assert entropy([[1, 1, 1], [1, 1, 2, 2]]) == pytest.approx(math.log(2) / 2)


def test_another_models_files_are_refused(snapshot: Path) -> None:
    config = json.loads((snapshot / "config.json").read_text())
    (snapshot / "config.json").write_text(json.dumps({**config, "model_type": "llama"}))
    with pytest.raises(ValueError, match="not of a GPT-2"):
        GPT2(snapshot)


def test_the_program_tells_what_it_finds(snapshot: Path, tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    rows = [{"ids": [1, 1, 2], "text": "ab<|endoftext|>c"}, {"ids": [5], "text": "déjà vu"}]
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "judge", str(snapshot), str(samples), "4"]
    done = subprocess.run(
        command, cwd=SOURCE / "harness", check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    assert (found["rows"], found["scored_tokens"]) == (2, 6)
    assert found["sample_entropy"] == pytest.approx(entropy([[1, 1, 2], [5]]))
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(snapshot / "tokenizer.json"))
    ids = [tokenizer.encode(row["text"]).ids[:4] for row in rows]
    assert ids[0][2] == END
    expected, _ = generative_perplexity(GPT2(snapshot), ids)
    assert found["generative_perplexity"] == pytest.approx(expected)

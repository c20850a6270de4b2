"""What the entry points do with a configuration."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import start
import teacher
import torch
from algorithms.ar import AR
from algorithms.mdlm import Masked
from omegaconf import DictConfig
from vocabulary import Vocabulary


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A tokenizer of four words."""
    words = {"[PAD]": 0, "[MASK]": 1, "red": 2, "green": 3, "blue": 4, "[UNK]": 5}
    special = [
        {"id": words[name], "content": name, "special": True, "single_word": False}
        | {"lstrip": False, "rstrip": False, "normalized": False}
        for name in ("[PAD]", "[MASK]")
    ]
    document = {
        "version": "1.0",
        "added_tokens": special,
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    return tmp_path


def test_samples_are_lines_of_ids_and_text_and_follow_from_the_seed(
    configured: Callable[..., DictConfig],
    teacher_of: Callable[..., str],
    tokenizer: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[int] = []
    sample = Masked.sample

    def counted(self: Masked, count: int, steps: int) -> torch.Tensor:
        drawn.append(count)
        return sample(self, count, steps)

    monkeypatch.setattr(Masked, "sample", counted)
    path = teacher_of("algo=mdlm", Vocabulary(6, 1, 0), "model.length=7")
    config = configured(
        "mode=sample",
        "model.length=7",
        *("sampling.num_samples=3", "loader.eval_batch_size=2"),
        "sampling.steps=4",
        "trainer.accelerator=cpu",
        "trainer.precision=32",
        f"data.tokenizer_name_or_path={tokenizer}",
        f"eval.checkpoint_path={path}",
    )
    outputs = []
    for seed in (1, 1, 2):
        config.seed = seed
        assert start.run(config) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
    assert drawn == [2, 1] * 3  # no more at a time than there is memory for
    rows = [json.loads(line) for line in outputs[0].splitlines()]
    assert [len(row["ids"]) for row in rows] == [7, 7, 7]
    assert {word for row in rows for word in row["text"].split()} <= {
        "red",
        "green",
        "blue",
        "[UNK]",
    }


def test_a_judge_gives_samples_its_perplexity_and_their_entropy(
    configured: Callable[..., DictConfig],
    teacher_of: Callable[..., str],
    tokenizer: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    vocabulary = Vocabulary(6, 1, 0)
    path = teacher_of("algo=ar", vocabulary, "model.length=4")
    rows = [[2, 2, 3, 3], [4, 4, 4, 4]]
    samples = tmp_path / "samples.jsonl"
    samples.write_text("".join(json.dumps({"ids": row}) + "\n" for row in rows))
    config = configured(
        "algo=ar",
        "mode=gen_ppl_eval",
        "model.length=4",
        "trainer.accelerator=cpu",
        "trainer.precision=32",
        f"data.tokenizer_name_or_path={tokenizer}",
        f"eval.checkpoint_path={path}",
        f"eval.generated_samples_path={samples}",
    )
    assert start.run(config) == 0
    found = json.loads(capsys.readouterr().out)
    model = AR(config, vocabulary, torch.float32).eval()
    teacher.load(model.backbone, path)
    total = 0.0
    for row in rows:  # prefix by prefix: nothing later is seen
        for place in range(1, 4):
            scores = model.logits(torch.tensor([row[:place]]))[0, -1]
            total -= scores.log_softmax(-1)[row[place]].item()
    assert found["rows"] == 2
    assert found["generative_perplexity"] == pytest.approx(math.exp(total / 6), rel=1e-4)
    assert found["entropy"] == pytest.approx(math.log(2) / 2)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["mode=dance"], "one of train, ppl_eval, sample"),
        (["loader.batch_size=3"], "global batch 512 is not 1 devices"),
        (["trainer.precision=7", "loader.batch_size=512"], "one of bf16"),
        (["trainer.accelerator=tpu", "loader.batch_size=512"], "cpu or cuda"),
    ],
)
def test_a_setting_that_cannot_be_ends_in_one_line(
    configured: Callable[..., DictConfig], overrides: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match=message):
        start.run(configured("trainer.accelerator=cpu", *overrides))


def test_sets_are_looked_for_where_the_papers_trainers_do(
    configured: Callable[..., DictConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "Rows", lambda folder, length: (str(folder), length))
    found = start.sets(configured("data=openwebtext-split", "data.cache_dir=/d", "model.length=9"))
    assert found == (
        ("/d/openwebtext-train_train_bs9_wrapped.dat", 9),
        ("/d/openwebtext-valid_validation_bs9_wrapped.dat", 9),
    )
    found = start.sets(configured("data.cache_dir=/d"))
    assert [Path(folder).name for folder, _ in found] == [
        "lm1b_train_bs128_wrapped.dat",
        "lm1b_test_bs128_wrapped.dat",
    ]
    with pytest.raises(SystemExit, match="wrapped"):
        start.sets(configured("data=lm1b", "data.cache_dir=/d"))

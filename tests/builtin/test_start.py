"""What the entry points do with a configuration."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import start
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
) -> None:
    path = teacher_of("algo=mdlm", Vocabulary(6, 1, 0), "model.length=7")
    config = configured(
        "mode=sample",
        "model.length=7",
        "sampling.num_samples=3",
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
    rows = [json.loads(line) for line in outputs[0].splitlines()]
    assert [len(row["ids"]) for row in rows] == [7, 7, 7]
    assert {word for row in rows for word in row["text"].split()} <= {
        "red",
        "green",
        "blue",
        "[UNK]",
    }


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

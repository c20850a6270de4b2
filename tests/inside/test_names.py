"""Names a checkpoint may hold, as real trainers' files have them, and names it may not."""

import pytest

from harness.inside.names import full_name, is_known


@pytest.mark.parametrize(
    "name",
    [
        "omegaconf.dictconfig DictConfig",
        "omegaconf.base ContainerMetadata",
        "omegaconf.nodes AnyNode",
        "transformers.models.bert.tokenization_bert_fast BertTokenizerFast",
        "transformers.models.gpt2.tokenization_gpt2_fast GPT2TokenizerFast",
        "transformers.tokenization_utils_base BatchEncoding",
        "tokenizers Tokenizer",
        "tokenizers AddedToken",
        "tokenizers.models Model",
        "pathlib PosixPath",
        "typing Any",
        "__builtin__ dict",
        "__builtin__ long",
        "collections defaultdict",
        "datetime datetime",
        "torch float16",
        "torch FloatStorage",
        "lightning.pytorch.loops.fit_loop _FitLoop",
    ],
)
def test_known(name: str) -> None:
    assert is_known(full_name(*name.split()))


@pytest.mark.parametrize(
    "name",
    [
        "os system",
        "builtins eval",
        "__builtin__ getattr",
        "builtins dict.fromkeys",
        "torch load",
        "torch.hub load",
        "torch.storage _load_from_bytes",
        "omegaconf OmegaConf",
        "omegaconf.dictconfig DictConfig.__init__",
        "typing Any.x",
        "tokenizers.Tokenizer from_file",
        "__main__ Config",
        "numpy load",
        "numpy._core.multiarray fromfile",
        "pathlib PosixPath\nx",
    ],
)
def test_unknown(name: str) -> None:
    assert not is_known(full_name(*name.split(" ")))


def test_one_spelling() -> None:
    assert full_name("__builtin__", "long") == "builtins.int"
    assert full_name("numpy.core.multiarray", "scalar") == "numpy._core.multiarray.scalar"
    assert full_name("numpy.corex", "scalar") == "numpy.corex.scalar"

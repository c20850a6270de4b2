"""Which names a checkpoint may hold: those that are built, and those kept as inert data.

A name that fits neither list is refused before anything is done with it.
"""

import re

from .tensors import DTYPES

STORAGES = {
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "BoolStorage": "bool",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
STORAGE_DTYPES = {f"torch.{name}": DTYPES[dtype] for name, dtype in STORAGES.items()}
UNTYPED = ("torch.storage.UntypedStorage", "torch.UntypedStorage")
TORCH_DTYPES = {f"torch.{name}": dtype for name, dtype in DTYPES.items()}

# Classes of configurations, tokenizers and trainer states: read as data, never imported.
_KNOWN = (
    r"builtins\.(bool|bytearray|bytes|complex|dict|float|frozenset|int|list|object|set|str|tuple)",
    r"collections\.(Counter|OrderedDict|defaultdict|deque)",
    r"datetime\.(date|datetime|time|timedelta|timezone)",
    r"decimal\.Decimal",
    r"enum\.(Enum|Flag|IntEnum|IntFlag)",
    r"numpy\.(bool_?|dtype|ndarray|(u?int|float|complex)\d+)",
    r"omegaconf\.(base|dictconfig|listconfig|nodes)\.\w+",
    r"pathlib\.(Pure)?(Posix|Windows)?Path",
    r"tokenizers\.(AddedToken|Tokenizer|(models|normalizers|pre_tokenizers)\.\w+)",
    r"tokenizers\.(decoders|processors|trainers)\.\w+",
    r"torch\.(Tensor|device|strided|nn\.parameter\.Parameter|torch_version\.TorchVersion)",
    r"transformers\.tokenization_\w+\.\w+",
    r"transformers\.models\.\w+\.tokenization_\w+\.\w+",
    r"typing\.\w+",
    r"uuid\.UUID",
    r"(lightning\.fabric|lightning_fabric)\.utilities\.data\.AttributeDict",
    r"(lightning\.pytorch|pytorch_lightning)\.utilities\.parsing\.AttributeDict",
    r"(lightning\.pytorch|pytorch_lightning)\.(callbacks|loops|trainer\.states)\.[\w.]+",
)
_PATTERN = re.compile("|".join(_KNOWN))


def full_name(module: str, name: str) -> str:
    """One spelling a thing: Python 2's and numpy 1's module names are today's."""
    module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
    if module == "builtins":
        name = {"long": "int", "unicode": "str"}.get(name, name)
    if module == "numpy.core" or module.startswith("numpy.core."):
        module = "numpy._core" + module.removeprefix("numpy.core")
    return f"{module}.{name}"


def is_known(name: str) -> bool:
    """Whether objects of that class may stand in a checkpoint, as data."""
    return (
        name in STORAGE_DTYPES
        or name in TORCH_DTYPES
        or name in UNTYPED
        or _PATTERN.fullmatch(name) is not None
    )

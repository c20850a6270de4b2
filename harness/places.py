"""Where things stand inside the sandbox: the same paths on every machine.

An argument list and a composed configuration hold only these, so they are equal everywhere.
"""

ROOT = "/run/harness"
ENVIRONMENT = f"{ROOT}/environment"
PYTHON = f"{ENVIRONMENT}/bin/python3"
SOURCE = f"{ROOT}/source"
ADAPTERS = f"{ROOT}/adapters"
INSIDE = f"{ROOT}/inside"
DATA = f"{ROOT}/data"
HUGGINGFACE = f"{ROOT}/huggingface"
TEACHER = f"{ROOT}/teacher"
TEACHER_FILE = f"{TEACHER}/model.ckpt"
INTEGRAL_CACHE = f"{ROOT}/work/integral.pkl"
OUTPUT = f"{ROOT}/output"
WORK = f"{ROOT}/work"


def teacher_file(family: str | None) -> str:
    """Where a trainer finds its only teacher, or of several the one of `family`."""
    return TEACHER_FILE if family is None else f"{TEACHER}/{family}.ckpt"


def snapshot(name: str, revision: str) -> str:
    """A pinned model or tokenizer's snapshot folder in the Hub's cache layout."""
    return f"{HUGGINGFACE}/hub/{snapshot_folder(name, revision)}"


def snapshot_folder(name: str, revision: str) -> str:
    """The same, relative to the hub folder of a cache."""
    return f"models--{name.replace('/', '--')}/snapshots/{revision}"

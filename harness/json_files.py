"""Records in JSON: read strictly, as canonical JSON could hold them, and published whole."""

import json
import math
from collections import Counter
from pathlib import Path

from harness.errors import Refused
from harness.files import open_plain, publish_bytes

MAX_JSON = 64 << 20  # a record larger than this is not one of ours
MAX_VALUES = 1_000_000  # the largest record lists 100,000 files, with three values each


def publish_json(target: Path, value: object) -> None:
    """Publish `value` as JSON, sorted and indented for readers; the folder must exist.

    Raises Refused where the file would be larger than any that `read_json` reads.
    """
    data = json_bytes(value)
    if len(data) > MAX_JSON:
        raise Refused(f"{target}: would be larger than {MAX_JSON >> 20} MiB; too much to record")
    publish_bytes(target, data)


def json_bytes(value: object) -> bytes:
    """The bytes that `publish_json` writes for `value`."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def read_json(path: Path) -> object:
    """The JSON value in `path`, of the kind that canonical JSON can hold (RFC 7493).

    Raises Refused with the file's name for anything else: duplicate keys, NaN, infinities, whole
    numbers beyond 2^53, half surrogate pairs, other encodings, and files of over 64 MiB or a
    million values.
    """
    try:
        with open_plain(path) as file:
            data = file.read(MAX_JSON + 1)
    except FileNotFoundError as error:
        raise Refused(f"{path}: not found") from error
    if len(data) > MAX_JSON:
        raise Refused(f"{path}: larger than {MAX_JSON >> 20} MiB; not a record of this harness")
    try:
        return _parsed(data.decode())
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path}: not valid JSON ({error})") from error


def _parsed(text: str) -> object:
    if text.count(",") > MAX_VALUES:
        raise ValueError(f"over {MAX_VALUES} values")
    value = json.loads(
        text,
        object_pairs_hook=_unique,
        parse_constant=_no_constant,
        parse_float=_finite,
        parse_int=_exact,
    )
    if "\\ud" in text.lower():  # escaped surrogates: each must have its other half
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"{digits[:30]} is too large a number")
    return number


def _exact(digits: str) -> int:
    if abs(number := int(digits)) >= 1 << 53:
        raise ValueError(f"{digits[:30]} is too large a whole number")
    return number


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"key {name[:30]!r} stands twice")
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")

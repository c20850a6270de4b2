"""JSON Schemas of every file the harness reads, and the check against them."""

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from harness.errors import Refused
from harness.files import read_json


@cache
def _validator(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    schema = json.loads((files(__name__) / f"{name}.schema.json").read_text())
    return extend(Draft202012Validator, {"pattern": _pattern})(schema)  # type: ignore[no-untyped-call]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"(?<!\\)\$", r"\\Z", pattern))


def _pattern(_: object, pattern: str, text: object, __: object) -> Iterator[Exception]:
    """As JSON Schema has it: `$` is the very end, not before a line's end as in Python."""
    from jsonschema import ValidationError

    if isinstance(text, str) and not _compiled(pattern).search(text):
        yield ValidationError(f"{text[:100]!r} does not match {pattern!r}")


def validate(value: object, name: str, where: str) -> None:
    """Check `value` against `<name>.schema.json`; `where` names its file in the error.

    Raises Refused with one line: the file, the field and what was expected.
    """
    import jsonschema

    error = jsonschema.exceptions.best_match(_validator(name).iter_errors(value))
    if error is not None:
        field = "/".join(str(part) for part in error.absolute_path) or "the document"
        message = " ".join(error.message.split())
        raise Refused(f"{where}: {field}: {message[:300]} (schema {name})")


def read_record(path: Path, name: str) -> dict[str, object]:
    """The JSON object in `path`, checked against the schema `name`.

    Raises Refused where the file is absent, no JSON, or does not fit its schema.
    """
    value = read_json(path)
    validate(value, name, str(path))
    if not isinstance(value, dict):
        raise Refused(f"{path}: not a JSON object")
    return value

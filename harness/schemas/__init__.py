"""JSON Schemas of every file the harness reads, and the check against them."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from harness.errors import Refused
from harness.files import read_json


@cache
def _validator(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    import jsonschema

    schema = json.loads((files(__name__) / f"{name}.schema.json").read_text())
    formats = jsonschema.FormatChecker(formats=())
    formats.checks("date-time", raises=ValueError)(_is_time)
    draft = jsonschema.Draft202012Validator
    strict = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
        draft,
        {"pattern": _pattern},
        type_checker=draft.TYPE_CHECKER.redefine("integer", lambda _, value: _is_whole(value)),
    )
    return strict(schema, format_checker=formats)


def _pattern(_: Any, pattern: str, value: object, __: Any) -> Iterator[Exception]:
    """As JSON Schema has it: `$` is the very end, and no line end may follow."""
    import jsonschema

    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


def _is_whole(value: object) -> bool:
    """Whether a value is written as a whole number: 1.0 would be a second name of 1."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_time(value: object) -> bool:
    """Whether a time is one: its pattern allows the 99th of a month."""
    if isinstance(value, str):
        datetime.fromisoformat(value)
    return True


def validate(value: object, name: str, where: str) -> None:
    """Check `value` against `<name>.schema.json`; `where` names its file in the error.

    Raises Refused with one line: the file, the field and what was expected.
    """
    import jsonschema

    try:
        error = jsonschema.exceptions.best_match(_validator(name).iter_errors(value))
    except RecursionError as deep:
        raise Refused(f"{where}: is nested too deeply (schema {name})") from deep
    if error is not None:
        field = "/".join(str(part) for part in error.absolute_path)[:300] or "the document"
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

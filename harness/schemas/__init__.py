"""JSON Schemas of every file the harness reads, and the check against them."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from harness.errors import Refused
from harness.json_files import read_json

MOST_ERRORS = 100  # of one list or table, to tell one of them; a hostile file could have millions

Check = Callable[..., Iterator[Exception]]


@cache
def _validator(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.validators import extend

    schema = json.loads((files(__name__) / f"{name}.schema.json").read_text())
    ours = {"pattern": _pattern, "uniqueItems": _unique}
    for keyword in ("items", "additionalProperties", "propertyNames"):
        ours[keyword] = _few(Draft202012Validator.VALIDATORS[keyword])
    whole = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: _is_whole(value))
    strict = extend(Draft202012Validator, ours, type_checker=whole)  # type: ignore[no-untyped-call]
    formats = FormatChecker(formats=())
    formats.checks("date-time", raises=ValueError)(_is_time)
    return strict(schema, format_checker=formats)


def _few(check: Check) -> Check:
    """A keyword's check that stops at MOST_ERRORS: of a choice the library collects them all."""
    return lambda *given: islice(check(*given), MOST_ERRORS)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"(?<!\\)\$", r"\\Z", pattern))


def _pattern(_: object, pattern: str, text: object, __: object) -> Iterator[Exception]:
    """As JSON Schema has it: `$` is the very end, not before a line's end as in Python."""
    from jsonschema import ValidationError

    if isinstance(text, str) and not _compiled(pattern).search(text):
        yield ValidationError(f"{text[:100]!r} does not match {pattern!r}")


def _unique(_: object, wanted: bool, items: object, __: object) -> Iterator[Exception]:
    """In one pass: the library compares each item with each where they cannot be sorted."""
    from jsonschema import ValidationError

    seen: set[str] = set()
    for item in items if wanted and isinstance(items, list) else ():
        text = json.dumps(item, sort_keys=True)
        if text in seen:
            yield ValidationError(f"{text[:100]} stands twice")
            return
        seen.add(text)


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
    from jsonschema.exceptions import best_match

    try:
        error: Any = best_match(_validator(name).iter_errors(value))
    except RecursionError as deep:
        raise Refused(f"{where}: is nested too deeply (schema {name})") from deep
    if error is not None:
        field = "/".join(str(part)[:100] for part in error.absolute_path)[:300] or "the document"
        message = " ".join(error.message[:1000].split())
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

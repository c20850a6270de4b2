"""What a name must look like before a path, an address or a pin is made of it."""

import re

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
# Every part by itself: a look at the whole would have to see past line ends.
_PART = r"(?!\.\.?(?:/|\Z))[^/\\\x00-\x1f\x7f-\x9f]+"
_KEY = re.compile(_NAME)
_REPO = re.compile(rf"{_NAME}(?:/{_NAME})?")
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_LONGEST = 240  # bytes of a part: file systems hold 255, and a part of a file is named longer
_HEX = re.compile(r"[0-9a-f]+")
_LARGEST = 1 << 53  # what a record's JSON holds exactly


def is_key(value: object) -> bool:
    """Whether it can name a pin."""
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def is_repo(value: object) -> bool:
    """Whether it can name a repository: NAME or OWNER/NAME."""
    return isinstance(value, str) and _REPO.fullmatch(value) is not None


def is_path(value: object) -> bool:
    """Whether it is a path that stays in its folder, of parts that a file system holds as UTF-8."""
    if not (isinstance(value, str) and _PATH.fullmatch(value)):
        return False
    try:
        return all(len(part.encode()) <= _LONGEST for part in value.split("/"))
    except UnicodeEncodeError:
        return False


def is_hex(value: object, digits: int) -> bool:
    """Whether it is a digest of so many lower-case digits."""
    return isinstance(value, str) and len(value) == digits and _HEX.fullmatch(value) is not None


def is_size(value: object) -> bool:
    """Whether it is a number of bytes."""
    return type(value) is int and 0 <= value < _LARGEST

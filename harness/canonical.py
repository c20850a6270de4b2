"""Canonical JSON (RFC 8785) and the digests taken over it."""

import hashlib
from collections.abc import Mapping, Sequence

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


def canonical_json(value: object) -> bytes:
    """The RFC 8785 encoding of a JSON value.

    Raises ValueError for what JSON cannot hold (NaN, integers beyond 2^53, other types).
    """
    import rfc8785

    return rfc8785.dumps(value)  # type: ignore[arg-type]


def digest(value: object) -> str:
    """Lower-case hex SHA-256 of the canonical encoding of `value`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()

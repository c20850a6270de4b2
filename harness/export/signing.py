"""Signing a Statement with a local key, as in-toto does: a DSSE envelope by securesystemslib.

Keys are PEM files as OpenSSL writes them (Ed25519, ECDSA P-256, RSA); no service is asked.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError, Refused
from harness.export.statement import PAYLOAD_TYPE
from harness.json_files import json_bytes

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, Key

_LARGEST = 1 << 16  # bytes of a key file


def sign(statement: bytes, key: Path) -> bytes:
    """The Statement in an envelope signed with the private key in `key`, as JSON."""
    from securesystemslib.dsse import Envelope

    envelope = Envelope(statement, PAYLOAD_TYPE, {})
    envelope.sign(_signer(key))
    return json_bytes(envelope.to_dict())


def verified(data: bytes, key: Path, where: str) -> bytes:
    """The Statement in an envelope whose signature by `key` (public, PEM) is good.

    Raises HarnessError where it is not, Refused where `data` is no envelope at all.
    """
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError

    public = _public(key)
    try:
        envelope = Envelope.from_dict(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"{where}: no signed envelope ({error})") from error
    if envelope.payload_type != PAYLOAD_TYPE:
        raise Refused(f"{where}: holds {envelope.payload_type!r}, not an in-toto Statement")
    try:
        envelope.verify([public], 1)
    except VerificationError as error:
        raise HarnessError(f"{where}: not signed by {key}") from error
    payload: bytes = envelope.payload
    return payload


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise Refused(f"{path}: cannot be read ({error.strerror})") from error


def _signer(path: Path) -> "CryptoSigner":
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    try:
        key: Any = load_pem_private_key(_read(path), None)
        return CryptoSigner(key)
    except (TypeError, ValueError) as error:
        raise Refused(
            f"{path}: no usable private key without a passphrase; make one with "
            f"'openssl genpkey -algorithm ed25519 -out {path.name}'"
        ) from error


def _public(path: Path) -> "Key":
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    try:
        key: Any = load_pem_public_key(_read(path))
        return SSlibKey.from_crypto(key)
    except (TypeError, ValueError) as error:
        raise Refused(
            f"{path}: no public key in PEM; 'openssl pkey -in KEY -pubout' writes it"
        ) from error

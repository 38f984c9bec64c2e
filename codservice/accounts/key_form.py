"""The form of a key (docs/authentication.md): `cod_live_` or `cod_test_`, 43 base62 characters (256 bits), and a
checksum of 6.
"""

import hashlib
import secrets
import string
import zlib

LIVE, TEST = "live", "test"
_PREFIXES = {LIVE: "cod_live_", TEST: "cod_test_"}
_PREFIX_LENGTH = len(_PREFIXES[LIVE])
_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET_LENGTH, _CHECKSUM_LENGTH = 43, 6


def make_key(mode: str = LIVE) -> str:
    body = _PREFIXES[mode] + "".join(secrets.choice(_BASE62) for _ in range(_SECRET_LENGTH))
    return body + _checksum(body)


def is_key(text: str) -> bool:
    """Whether `text` has a key's form and a right checksum. Says nothing of whether the key exists."""
    body, checksum = text[:-_CHECKSUM_LENGTH], text[-_CHECKSUM_LENGTH:]
    return (
        len(text) == _PREFIX_LENGTH + _SECRET_LENGTH + _CHECKSUM_LENGTH
        and text.isascii()
        and text.startswith(tuple(_PREFIXES.values()))
        and text[_PREFIX_LENGTH:].isalnum()
        and checksum == _checksum(body)
    )


def key_in(header: str) -> str:
    """The text that has the form of a key in an `Authorization` header; empty when there is none.

    One blank or several stand before it (RFC 7235).
    """
    scheme, _, text = header.partition(" ")
    text = text.lstrip(" ")
    return text if scheme.lower() == "bearer" and is_key(text) else ""


def shows_test_key(header: str) -> bool:
    """Whether what has the form of a key in an `Authorization` header is a test key, of which every answer tells."""
    return key_in(header).startswith(_PREFIXES[TEST])


def digest_of(key: str) -> bytes:
    """What is stored of a key, or of a link that is mailed. Both have 256 random bits: one round of SHA-256 cannot be
    turned back."""
    return hashlib.sha256(key.encode()).digest()


def _checksum(body: str) -> str:
    """CRC-32 in base62, as GitHub's tokens have it, so that scanners tell a leaked key from a look-alike."""
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CHECKSUM_LENGTH):
        number, rest = divmod(number, 62)
        digits = _BASE62[rest] + digits
    return digits

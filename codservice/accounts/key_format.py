"""The format of a key (docs/authentication.md): `cod_live_` or `cod_test_`, 43 base62 characters (256 bits) and a
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
    """Whether `text` has a key's format and a valid checksum. The key need not exist."""
    body, checksum = text[:-_CHECKSUM_LENGTH], text[-_CHECKSUM_LENGTH:]
    return (
        len(text) == _PREFIX_LENGTH + _SECRET_LENGTH + _CHECKSUM_LENGTH
        and text.isascii()
        and text.startswith(tuple(_PREFIXES.values()))
        and text[_PREFIX_LENGTH:].isalnum()
        and checksum == _checksum(body)
    )


def key_in(header: str) -> str:
    """The text with a key's format in an `Authorization` header, or an empty string.

    One or more blanks may precede it (RFC 7235).
    """
    scheme, _, text = header.partition(" ")
    text = text.lstrip(" ")
    return text if scheme.lower() == "bearer" and is_key(text) else ""


def shows_test_key(header: str) -> bool:
    """Whether the header has text in a test key's format. Every answer to such a request says that it is test mode."""
    # Live keys are told apart first, since the checksum takes longest.
    return _PREFIXES[TEST] in header and key_in(header).startswith(_PREFIXES[TEST])


def digest_of(key: str) -> bytes:
    """What is stored of a key or a mailed link. Both have 256 random bits, so one round of SHA-256 is irreversible."""
    return hashlib.sha256(key.encode()).digest()


def _checksum(body: str) -> str:
    """CRC-32 in base62, as in GitHub's tokens, so that scanners can tell a leaked key from a look-alike."""
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CHECKSUM_LENGTH):
        number, rest = divmod(number, 62)
        digits = _BASE62[rest] + digits
    return digits

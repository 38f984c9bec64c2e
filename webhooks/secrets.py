"""Signing secrets: make them, encrypt them under ENCRYPTION_KEYS for the database, decrypt them to sign."""

import base64
import os
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

HINT_LENGTH = 10  # characters that are shown again


def make_secret() -> str:
    """Return `whsec_` and 32 random bytes in base64 (docs/webhooks.md)."""
    return "whsec_" + base64.b64encode(os.urandom(32)).decode()


def hint(secret: str) -> str:
    return secret[:HINT_LENGTH] + "…"


def encrypt(secret: str) -> bytes:
    return _fernet(*settings.ENCRYPTION_KEYS).encrypt(secret.encode())


@lru_cache(maxsize=4096)  # a secret signs many deliveries, and decrypting costs more than signing
def decrypt(encrypted: bytes) -> str:
    """Raises cryptography.fernet.InvalidToken when none of ENCRYPTION_KEYS encrypted it."""
    return _fernet(*settings.ENCRYPTION_KEYS).decrypt(encrypted).decode()


def is_readable(encrypted: bytes) -> bool:
    """Whether one of ENCRYPTION_KEYS encrypted it."""
    return _reads(_fernet(*settings.ENCRYPTION_KEYS), encrypted)


def is_under_newest_key(encrypted: bytes) -> bool:
    """Whether the first of ENCRYPTION_KEYS, which is used to encrypt, encrypted it."""
    return _reads(_fernet(settings.ENCRYPTION_KEYS[0]), encrypted)


def encrypt_anew(encrypted: bytes) -> bytes:
    """Return the same secret, encrypted under the first of ENCRYPTION_KEYS. Raises as `decrypt` does."""
    return _fernet(*settings.ENCRYPTION_KEYS).rotate(encrypted)


def _reads(fernet: MultiFernet, encrypted: bytes) -> bool:
    try:
        fernet.decrypt(encrypted)
    except InvalidToken:
        return False
    return True


@lru_cache(maxsize=8)
def _fernet(*keys: str) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])

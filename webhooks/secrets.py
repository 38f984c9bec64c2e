"""Signing secrets: made, encrypted at rest under ENCRYPTION_KEYS, decrypted to sign."""

import base64
import os
from functools import lru_cache

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings

HINT_LENGTH = 10  # characters that are shown again


def make_secret() -> str:
    """`whsec_` and 32 random bytes in base64 (contract, section 8)."""
    return "whsec_" + base64.b64encode(os.urandom(32)).decode()


def hint(secret: str) -> str:
    return secret[:HINT_LENGTH] + "…"


def encrypt(secret: str) -> bytes:
    return _fernet().encrypt(secret.encode())


@lru_cache(maxsize=4096)  # a secret signs many deliveries; to decrypt it each time would cost more than to sign
def decrypt(encrypted: bytes) -> str:
    """Raises cryptography.fernet.InvalidToken when none of ENCRYPTION_KEYS has encrypted it."""
    return _fernet().decrypt(encrypted).decode()


def encrypt_anew(encrypted: bytes) -> bytes:
    """The same secret under the first of ENCRYPTION_KEYS."""
    return _fernet().rotate(encrypted)


@lru_cache(maxsize=1)
def _fernet() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])

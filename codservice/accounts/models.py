import hashlib
import secrets
import string
import zlib
from datetime import datetime

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Lower, Now
from uuid_utils.compat import uuid7

SCOPES = (
    "orders:read",
    "orders:write",
    "inventory:read",
    "inventory:write",
    "webhooks:read",
    "webhooks:write",
)


def all_scopes() -> list[str]:
    return list(SCOPES)


class User(AbstractUser):
    """A person who signs in: an account holder (whose username is the e-mail address), an agent, an operator."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)

    class Meta:
        constraints = [
            # Two holders with one address could not both reset their password.
            models.UniqueConstraint(Lower("email"), condition=~models.Q(email=""), name="one_user_per_email"),
        ]

    @property
    def display_name(self) -> str:
        return self.get_full_name() or self.username


class Account(models.Model):
    """A merchant. Everything that the API shows or changes belongs to exactly one."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=255)
    holder = models.OneToOneField(User, on_delete=models.PROTECT, related_name="account")
    rate_limit = models.PositiveIntegerField(
        null=True, blank=True, help_text="Requests per minute and API key; empty: the deployment's own."
    )
    is_active = models.BooleanField(default=True, help_text="The keys of an inactive account stop working.")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


# --- The form of a key (contract, section 2): `cod_live_`, 43 base62 characters (256 bits), 6 of checksum ----------

KEY_PREFIX = "cod_live_"
_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET_LENGTH, _CHECKSUM_LENGTH = 43, 6


def make_key() -> str:
    body = KEY_PREFIX + "".join(secrets.choice(_BASE62) for _ in range(_SECRET_LENGTH))
    return body + _checksum(body)


def is_key(text: str) -> bool:
    """Whether `text` has a key's form and a right checksum. Says nothing of whether the key exists."""
    body, checksum = text[:-_CHECKSUM_LENGTH], text[-_CHECKSUM_LENGTH:]
    return (
        len(text) == len(KEY_PREFIX) + _SECRET_LENGTH + _CHECKSUM_LENGTH
        and text.isascii()
        and text.startswith(KEY_PREFIX)
        and text.removeprefix(KEY_PREFIX).isalnum()
        and checksum == _checksum(body)
    )


def digest_of(key: str) -> bytes:
    """What is stored of a key. A key has 256 random bits: one round of SHA-256 cannot be turned back."""
    return hashlib.sha256(key.encode()).digest()


def _checksum(body: str) -> str:
    """CRC-32 in base62, as GitHub's tokens have it, so that scanners tell a leaked key from a look-alike."""
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CHECKSUM_LENGTH):
        number, rest = divmod(number, 62)
        digits = _BASE62[rest] + digits
    return digits


class ApiKey(models.Model):
    """A merchant's key for the API. The key itself is shown once, when it is made, and stored nowhere."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, help_text="The key's first 12 characters, to tell keys apart.")
    digest = models.BinaryField(max_length=32, unique=True)
    scopes = ArrayField(models.CharField(max_length=20), default=all_scopes)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @classmethod
    def issue(
        cls, account: Account, *, name: str, scopes: list[str] | None = None, expires_at: datetime | None = None
    ) -> tuple["ApiKey", str]:
        """A new key: its row, and the key itself, which is to be shown now or never."""
        key = make_key()
        row = cls.objects.create(
            account=account,
            name=name,
            prefix=key[: cls._meta.get_field("prefix").max_length],
            digest=digest_of(key),
            scopes=all_scopes() if scopes is None else scopes,
            expires_at=expires_at,
        )
        return row, key

    def revoke(self) -> None:
        """Stop the key for good. A second time changes nothing."""
        type(self).objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=Now())

"""Bearer keys: from the header to the account (contract, section 2)."""

import hmac
import time
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from codservice.accounts.models import digest_of, is_key

# A key that was found is believed for so long: under load one look-up a second and process instead of one a
# request, and a revoked key is refused everywhere within a second.
BELIEVED_FOR = 1.0  # seconds
_MAX_BELIEVED = 10_000


class Key(NamedTuple):
    """What a request needs to know of its key."""

    id: UUID
    name: str
    account_id: UUID
    scopes: frozenset[str]
    rate_limit: int  # requests per minute
    expires_at: datetime | None
    digest: bytes


# digest → (key, believed until). Replaced entry by entry; a lost update costs one look-up.
_believed: dict[bytes, tuple[Key, float]] = {}

# One statement finds the key and notes its use, at most once a minute.
_FIND = """
WITH found AS (
    SELECT k.id, k.name, k.account_id, k.scopes, k.expires_at, k.digest, k.last_used_at, a.rate_limit
    FROM accounts_apikey k JOIN accounts_account a ON a.id = k.account_id
    WHERE k.digest = %s AND k.revoked_at IS NULL AND a.is_active
      AND (k.expires_at IS NULL OR k.expires_at > now())
), noted AS (
    UPDATE accounts_apikey SET last_used_at = now()
    WHERE id IN (SELECT id FROM found WHERE last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
)
SELECT id, name, account_id, scopes, rate_limit, expires_at, digest FROM found
"""


def find_key(header: str) -> Key | None:
    """The valid key in an `Authorization` header, or None: malformed, unknown, revoked, expired, account closed."""
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "bearer" or not is_key(text):
        return None
    digest = digest_of(text)
    key, until = _believed.get(digest, (None, 0.0))
    now = time.monotonic()
    if key is None or now >= until:
        key = _look_up(digest)
        if key is None:
            _believed.pop(digest, None)
            return None
        if len(_believed) >= _MAX_BELIEVED:
            _believed.clear()
        _believed[digest] = key, now + BELIEVED_FOR
    if key.expires_at is not None and key.expires_at <= datetime.now(UTC):
        return None
    return key


def forget_believed() -> None:
    """Look every key up anew; for tests, which change keys within the second."""
    _believed.clear()


def _look_up(digest: bytes) -> Key | None:
    with connection.cursor() as cursor:
        cursor.execute(_FIND, [digest])
        row = cursor.fetchone()
    if row is None or not hmac.compare_digest(bytes(row[6]), digest):
        return None
    id_, name, account_id, scopes, rate_limit, expires_at, _ = row
    return Key(id_, name, account_id, frozenset(scopes), rate_limit or settings.API_RATE_LIMIT, expires_at, digest)


class ApiKeyAuthentication(BaseAuthentication):
    """DRF's way to the key that `codservice.middleware.ApiGate` has found: `request.auth`."""

    def authenticate(self, request: Request) -> tuple[None, Key] | None:
        key = getattr(request._request, "api_key", None)
        return None if key is None else (None, key)

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"

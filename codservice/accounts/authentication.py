"""Bearer keys: from the header to the account (docs/authentication.md)."""

import hmac
import math
import time
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import OperationalError
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from codservice import postgresql
from codservice.accounts.key_format import LIVE, TEST, digest_of, key_in

# How long a key that was found is trusted. Under load this makes one lookup a second and process, not one a request,
# and still refuses a revoked key everywhere within a second.
TRUSTED_FOR = 1.0  # seconds
_MAX_TRUSTED = 10_000


class Key(NamedTuple):
    """What a request needs to know of its key."""

    id: UUID
    name: str
    prefix: str
    account_id: UUID
    account_name: str
    mode: str  # LIVE or TEST, whose account is a twin
    scopes: frozenset[str]
    rate_limit: int  # requests per minute
    expires_at: datetime | None


# digest → (key, trusted until). Entries are replaced one by one; a lost update costs one lookup.
_trusted: dict[bytes, tuple[Key, float]] = {}

_FIND = """
SELECT k.id, k.name, k.prefix, k.account_id, live.name, a.live_id IS NOT NULL AS is_test, k.scopes,
    COALESCE(a.rate_limit, live.rate_limit), k.expires_at, k.digest,
    k.last_used_at IS NULL OR k.last_used_at < now() - interval '1 minute' AS is_used_anew,
    EXTRACT(EPOCH FROM k.expires_at - now())::float AS seconds_left,
    k.revoked_at, a.is_active AND live.is_active AND holder.is_active AS is_account_open
FROM accounts_apikey k
JOIN accounts_account a ON a.id = k.account_id
JOIN accounts_account live ON live.id = COALESCE(a.live_id, a.id)
JOIN accounts_user holder ON holder.id = live.holder_id
WHERE k.digest = %s
"""
# At most once a minute, however many processes see the key at the same time.
_NOTE = """
UPDATE accounts_apikey SET last_used_at = now()
WHERE id = %s AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
"""


_MALFORMED = "The Authorization header has no whole API key. Send it as it was shown: Authorization: Bearer <API_KEY>."
_UNKNOWN = "This API key is not known here. Use the address of the service that made it, or make a new one there."
_REVOKED = "This API key was revoked at {:%Y-%m-%dT%H:%M:%SZ}. Make a new one on the account's page API keys."
_EXPIRED = "This API key expired at {:%Y-%m-%dT%H:%M:%SZ}. Make a new one on the account's page API keys."
_CLOSED = "The account of this API key is closed, or the person who holds it may not sign in. Ask the operator."


def find_key(header: str) -> Key | str:
    """The valid key in an `Authorization` header, or a sentence that says why there is none; it is empty if nothing was
    sent. What became of a key is told only to who has the whole of it."""
    text = key_in(header)
    if not text:
        return _MALFORMED if header else ""
    digest = digest_of(text)
    key, until = _trusted.get(digest, (None, 0.0))
    now = time.monotonic()
    if key is None or now >= until:
        found = _look_up(digest)
        if isinstance(found, str):
            _trusted.pop(digest, None)
            return found
        if len(_trusted) >= _MAX_TRUSTED:
            _trusted.clear()
        key, seconds_left = found
        _trusted[digest] = key, now + min(TRUSTED_FOR, seconds_left)
    return key


def is_known(text: str) -> bool:
    """Whether this process found the key before and has not refused it since. It may be revoked by now."""
    return digest_of(text) in _trusted


def _look_up(digest: bytes) -> tuple[Key, float] | str:
    """The key, and the seconds until it expires by the database's clock; or why it is refused."""
    row = postgresql.row(_FIND, [digest])
    if row is None or not hmac.compare_digest(bytes(row[9]), digest):
        return _UNKNOWN
    *found, is_used_anew, seconds_left, revoked_at, is_account_open = row
    if revoked_at is not None:
        return _REVOKED.format(revoked_at)
    if not is_account_open:
        return _CLOSED
    if seconds_left is not None and seconds_left <= 0:
        return _EXPIRED.format(found[8])
    if is_used_anew:
        with suppress(OperationalError):  # a database that takes no writes can still be read
            postgresql.execute(_NOTE, [found[0]])
    id_, name, prefix, account_id, account_name, is_test, scopes, rate_limit, expires_at, _ = found
    key = Key(
        id=id_,
        name=name,
        prefix=prefix,
        account_id=account_id,
        account_name=account_name,
        mode=TEST if is_test else LIVE,
        scopes=frozenset(scopes),
        rate_limit=rate_limit or settings.API_RATE_LIMIT,
        expires_at=expires_at,
    )
    return key, math.inf if seconds_left is None else seconds_left


class ApiKeyAuthentication(BaseAuthentication):
    """Gives DRF the key that `codservice.middleware.ApiGate` found, as `request.auth`."""

    def authenticate(self, request: Request) -> tuple[None, Key] | None:
        key = getattr(request._request, "api_key", None)
        return None if key is None else (None, key)

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"

"""The feed: every event of an account, oldest first, so that a receiver that was down misses none (docs/events.md).

It is ordered by `Event.position` and ends below every transaction that is open in this database, so that nothing can
be inserted before what was shown (docs/architecture.md, "The feed"). Of two changes of one row, the second never has a
lower position; where the positions are equal, the feed goes by time, and the second is later. It is read kind by kind
along one index, so that a page costs the same however many events there are.

A cursor is a place in this order, signed for its account. It stays valid across restarts and failovers, and where a
backup is restored if it is no newer than that (`note_restored`). The migrations `feed`, `feed_in_order` and
`feed_horizon` give the reasons of the database's functions `webhooks_feed_base`, `webhooks_feed_position` and
`webhooks_feed_horizon` (codservice/operations/new_database.sql).
"""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from importlib import import_module
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.core import signing
from psycopg import Connection

from codservice import postgresql
from codservice.errors import Invalid, Refused
from webhooks.models import Event

KEPT = timedelta(days=min(32, settings.CUSTOMER_RETENTION_DAYS or 32))  # no event outlives its order's customer
SHOWN = KEPT * 15 / 16  # 30 days (docs/events.md)
EXPIRES = KEPT * 61 / 64  # age of a cursor: somewhat more, so that readers who begin with the oldest can go on
LONGEST_TRANSACTION = timedelta(days=1)  # far longer than any of ours can take
MOST = 100  # events in a page

LAST_ID = UUID(int=(1 << 128) - 1)
_CURSOR = struct.Struct(">qd16s")


class CursorExpired(Refused):
    """Events after the cursor may be gone: deleted by now, or not in the backup that the service was restored from."""

    code, status = "cursor_expired", HTTPStatus.GONE
    message = "This `after` can no longer be used: events after it may be gone. Start again without it."


class Cursor(NamedTuple):
    """The place after an event, given by its position, id and time.

    With `LAST_ID` it is the place after all events of a position; `at` is then when that was the end of the feed.
    """

    position: int
    event_id: UUID
    at: datetime

    def sign(self, account_id: UUID) -> str:
        packed = _CURSOR.pack(self.position, self.at.timestamp(), self.event_id.bytes)
        return _signer(account_id).sign(urlsafe_b64encode(packed).decode().rstrip("="))


def read_cursor(account_id: UUID, text: str) -> Cursor:
    """Read a cursor that was signed for the account. Raises Invalid."""
    try:
        position, at, event_id = _CURSOR.unpack(urlsafe_b64decode(_signer(account_id).unsign(text) + "=="))
    except (signing.BadSignature, ValueError, struct.error):
        raise Invalid({"after": ["Must be the `next` of an earlier answer, unchanged, or empty."]}) from None
    return Cursor(position, UUID(bytes=event_id), datetime.fromtimestamp(at, UTC))


def _signer(account_id: UUID) -> signing.Signer:
    return signing.Signer(salt=f"webhooks.feed:{account_id}", sep=".")


class FeedEvent(NamedTuple):
    id: UUID
    body: str


class Page(NamedTuple):
    events: list[FeedEvent]
    next: Cursor
    has_more: bool


# `horizon` is the first position at which something may still be written. It may go back for a moment, when a
# transaction of another database ends while it is looked for. `future` is the first position that no transaction has
# yet. `backup` is the time of one that was restored and whose last event is before the cursor. An empty cursor begins
# at the last event before the days that are shown. That event is found by its id, which has an index, and also by its
# time, since ids come from the clocks of web hosts, which may be wrong (`first_id`).
_PAGE = """
WITH horizon AS MATERIALIZED (
    SELECT webhooks_feed_horizon() AS position,
        webhooks_feed_base() + pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS future,
        (SELECT min(backup_at) FROM webhooks_feedgap WHERE %(position)s::bigint <@ positions) AS backup
), shown AS MATERIALIZED (
    SELECT since, rpad(lpad(to_hex((extract(epoch FROM since) * 1000)::bigint), 12, '0'), 32, '0')::uuid AS first_id
    FROM (SELECT now() - %(shown)s::interval AS since) AS shown
), start AS MATERIALIZED (
    SELECT coalesce(%(position)s::bigint, (
        SELECT position FROM webhooks_event
        WHERE id < (SELECT first_id FROM shown) AND created_at < (SELECT since FROM shown) AND position IS NOT NULL
        ORDER BY id DESC LIMIT 1
    ), -1) AS position
), page AS (
    SELECT found.* FROM horizon, start, unnest(%(kinds)s::text[]) AS kinds(kind) CROSS JOIN LATERAL (
        SELECT position, created_at, id FROM webhooks_event
        WHERE account_id = %(account_id)s AND kind = kinds.kind AND position < horizon.position
          AND (position, created_at, id) > (start.position, %(at)s::timestamptz, %(event_id)s)
        ORDER BY position, created_at, id LIMIT %(limit)s
    ) AS found
    ORDER BY found.position, found.created_at, found.id LIMIT %(limit)s
)
SELECT horizon.position, horizon.future, horizon.backup, now(), page.position, page.created_at, page.id, event.body
FROM horizon LEFT JOIN (page JOIN webhooks_event event ON event.id = page.id) ON true
ORDER BY page.position, page.created_at, page.id
"""


def read(account_id: UUID, *, after: Cursor | None = None, kinds: Sequence[str] = (), limit: int = MOST) -> Page:
    """Read up to `limit` events after the cursor, or the oldest that are shown, in one statement.

    Without `kinds`, events of all kinds. Raises CursorExpired.
    """
    event_id = after.event_id if after else LAST_ID
    rows = postgresql.rows(
        _PAGE,
        {
            "account_id": account_id,
            "kinds": list(kinds or Event.Kind.values),
            "position": after and after.position,
            "at": after.at if after and event_id != LAST_ID else "infinity",
            "event_id": event_id,
            "shown": SHOWN,
            "limit": limit + 1,
        },
    )
    horizon, future, backup, at = rows[0][:4]
    if after is not None:
        is_known = backup is None or (event_id == LAST_ID and after.at <= backup)
        # A position that no transaction has yet is from a server that was further.
        if after.at < at - EXPIRES or not is_known or after.position >= future:
            raise CursorExpired
    found = [row[4:] for row in rows if row[4] is not None]
    events = [FeedEvent(id_, body) for _, _, id_, body in found[:limit]]
    if len(found) <= limit:
        end = Cursor(horizon - 1, LAST_ID, at)
        if after and after > end:  # the horizon went back, so nothing after the cursor is seen: keep its place
            end = after._replace(at=at) if after.event_id == LAST_ID else after
        return Page(events, end, has_more=False)
    position, created_at, id_, _ = found[limit - 1]
    return Page(events, Cursor(position, id_, created_at), has_more=True)


# Up to the position that an event of now would have: this database's own cursors are from there on.
_NOTE_RESTORED = """
INSERT INTO webhooks_feedgap (positions, backup_at)
SELECT int8range(first, greatest(first, webhooks_feed_position())), %s
FROM (SELECT coalesce(max(position), -1) + 1 AS first FROM webhooks_event) AS lost
"""


def note_restored(session: Connection, backup_at: datetime) -> None:
    """Note that a backup made at `backup_at` is restored in this transaction: cursors from after it have expired."""
    if session.execute("SELECT 1 WHERE to_regclass('webhooks_feedera') IS NULL").fetchone():  # older than the feed
        return
    session.execute(import_module("webhooks.migrations.0014_feed_gaps").TABLE)  # which the backup may be older than
    session.execute(_NOTE_RESTORED, [backup_at])


def first_id(at: datetime) -> UUID:
    """Return the lowest UUIDv7 of the millisecond of `at`."""
    return UUID(int=(int(at.timestamp() * 1000) << 80) | 7 << 76 | 2 << 62)

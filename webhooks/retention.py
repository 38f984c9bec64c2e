"""Deleting old rows of webhooks, in small batches: no statement locks much or for long, however large the tables are.

Each public function is a sweep of `codservice.retention`.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from codservice import postgresql
from webhooks import feed
from webhooks.feed import LAST_ID, first_id
from webhooks.models import Webhook

BATCH = 200  # rows that one statement looks at; attempts and claims are deleted with their delivery

# Events' ids sort by time, and so does the index of `one_delivery_per_event_and_webhook`. Resent deliveries stay as
# long again. But an event has data of a customer, and is not kept longer than the order keeps its customer.
_DELIVERIES = """
WITH page AS (
    SELECT id, event_id, webhook_id FROM webhooks_delivery
    WHERE event_id < %(end)s AND (event_id, webhook_id) > (%(event_id)s, %(webhook_id)s)
    ORDER BY event_id, webhook_id LIMIT %(batch)s
), old AS (
    SELECT id FROM webhooks_delivery WHERE id = ANY(ARRAY(SELECT id FROM page)) AND status <> 'pending'
      AND (finished_at < %(before)s OR created_at < now() - %(at_most)s::interval)
    {lock}
), attempts AS (
    {delete} webhooks_attempt WHERE delivery_id = ANY(ARRAY(SELECT id FROM old)) {returning}
), claims AS (
    -- Left by a worker that died while its deliveries were dropped: nobody claims those again.
    {delete} webhooks_claim WHERE delivery_id = ANY(ARRAY(SELECT id FROM old)) {returning}
), deliveries AS (
    {delete} webhooks_delivery WHERE id = ANY(ARRAY(SELECT id FROM old)) {returning}
)
SELECT (SELECT count(*) FROM deliveries), (SELECT count(*) FROM attempts), count(*) OVER (), event_id, webhook_id
FROM page ORDER BY event_id DESC, webhook_id DESC LIMIT 1
"""


def _by_id(table: str, is_old: str) -> str:
    """Return a statement like `_DELIVERIES` for a table by its ids."""
    return f"""
WITH page AS (
    SELECT id FROM {table} WHERE id > %(id)s AND id < %(end)s ORDER BY id LIMIT %(batch)s
), old AS (
    SELECT id FROM {table} WHERE id = ANY(ARRAY(SELECT id FROM page)) AND {is_old}
    {{lock}}
), done AS (
    {{delete}} {table} WHERE id = ANY(ARRAY(SELECT id FROM old)) {{returning}}
)
SELECT (SELECT count(*) FROM done), count(*) OVER (), id FROM page ORDER BY id DESC LIMIT 1
"""  # noqa: S608  (of our own text)


_EVENTS = _by_id(
    "webhooks_event",
    "created_at < %(before)s AND NOT EXISTS (SELECT FROM webhooks_delivery d WHERE d.event_id = webhooks_event.id)",
)
_WEBHOOKS = _by_id(
    "webhooks_webhook",
    "deleted_at < %(before)s AND NOT EXISTS (SELECT FROM webhooks_delivery d WHERE d.webhook_id = webhooks_webhook.id)",
)
_DOING = {"lock": "FOR UPDATE SKIP LOCKED", "delete": "DELETE FROM", "returning": "RETURNING 1"}
_COUNTING = {"lock": "", "delete": "SELECT 1 FROM", "returning": ""}


def deliveries(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Delete deliveries of old events, with their attempts, that were also finished before that time.

    They stay while the feed shows their events, because a recovery sends events that have no delivery.
    """
    before = _out_of_the_feed(before)
    at_most = timedelta(days=settings.CUSTOMER_RETENTION_DAYS or 36_500)
    times = {"before": before, "end": first_id(before), "at_most": at_most}
    yield from _in_pages(_DELIVERIES, ("deliveries", "attempts"), ("event_id", "webhook_id"), times, dry_run)


def events(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Delete old events that have no delivery (any more) and that the feed no longer shows."""
    before = _out_of_the_feed(before)
    yield from _in_pages(_EVENTS, ("events",), ("id",), {"before": before, "end": first_id(before)}, dry_run)


def _out_of_the_feed(before: datetime) -> datetime:
    """Return `before` or the time since which the feed keeps events, whichever is earlier."""
    return postgresql.row("SELECT least(%s, now() - %s::interval)", [before, feed.KEPT])[0]


def webhooks(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Delete the rows of webhooks that merchants deleted before that time and whose log is empty."""
    return _in_pages(_WEBHOOKS, ("webhooks",), ("id",), {"before": before, "end": LAST_ID}, dry_run)


def previous_secrets(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Clear previous secrets that no longer sign."""
    ended = Webhook.objects.filter(previous_secret_until__lt=Now())
    if dry_run:
        yield {"previous_secrets": ended.count()}
        return
    cleared = BATCH
    while cleared == BATCH:
        with transaction.atomic():
            # Locked rows are checked again: a merchant may have rotated the secret meanwhile.
            ids = list(ended.select_for_update(skip_locked=True).values_list("id", flat=True)[:BATCH])
            cleared = Webhook.objects.filter(id__in=ids).update(previous_secret=None, previous_secret_until=None)
        yield {"previous_secrets": cleared}


def _in_pages(
    sql: str, names: tuple[str, ...], key: tuple[str, ...], parameters: dict[str, Any], dry_run: bool
) -> Iterator[dict[str, int]]:
    """Run the statement on page after page of a table, by `key`, and yield its counts under `names`.

    Going by key, rows that were passed over or deleted but not vacuumed yet are not read again for each page.
    """
    statement = sql.format(**(_COUNTING if dry_run else _DOING))
    last, size = dict.fromkeys(key, UUID(int=0)), BATCH
    while size == BATCH:
        found = postgresql.row(statement, {**parameters, **last, "batch": BATCH})
        row = found or (*(0 for _ in names), 0, *last.values())
        size, last = row[len(names)], dict(zip(key, row[len(names) + 1 :], strict=True))
        yield dict(zip(names, row, strict=False))

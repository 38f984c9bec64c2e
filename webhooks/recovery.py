"""Sending a webhook what it has missed: deliveries that failed or were dropped, and events it has no delivery of.

A recovery goes through the feed, batch by batch, from where its period begins. Each batch is a transaction of its own,
so that events go oldest first, locks are bounded and nothing is sent twice. A recovery is a row: a worker continues
what the request leaves undone because there is much, or because an older transaction is still open.
"""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import NamedTuple
from uuid import UUID

from django.db import DatabaseError, transaction
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from codservice import postgresql, stops
from codservice.errors import Refused
from webhooks import delivery, events, feed, resending, wakeup
from webhooks.models import Recovery, Webhook
from webhooks.retries import RETRIES

logger = logging.getLogger(__name__)

BATCH = 1000  # events that one statement goes through
SECONDS = 0.3  # how long a request, which holds a web thread, works on it; the rest is left to a worker
WORKER_SECONDS = 20.0  # after which a worker begins no turn of webhooks any more
MOST_AT_ONCE = 10  # recoveries of a webhook: each goes through its whole period, however much of it others have sent
_TURN = 100  # webhooks at most

# Of several recoveries of a webhook that begin at once, each counts those before it: they begin one by one, and only
# the next statement counts. The row of the webhook is not locked for it, since a batch of a worker holds it for long.
_BEGIN_ALONE = """
SELECT least(%s::timestamptz, now() + interval '1 minute'), pg_advisory_xact_lock(hashtextextended(%s::text, 0))
"""

# The search begins and ends at events that are a day before and after the period, whose places in the feed are surely
# before and after it: a place is a number given out while a transaction was open, and none takes longer than
# `feed.LONGEST_TRANSACTION`. Open transactions are not missed, as the recovery does not end before they do. Ids have an
# index but come from the clocks of web hosts, which may be wrong, so the event's time is checked too. One that is still
# to come, as the database's clock was set back, says nothing about places.
_BEGIN = """
WITH webhook AS MATERIALIZED (
    SELECT id, account_id FROM webhooks_webhook
    WHERE id = %(webhook_id)s AND account_id = %(account_id)s AND deleted_at IS NULL AND is_active
        AND (SELECT count(*) FROM webhooks_recovery WHERE webhook_id = %(webhook_id)s) < %(most)s
    FOR KEY SHARE
)
INSERT INTO webhooks_recovery (id, account_id, webhook_id, since, until, position, event_id, stop_at)
SELECT %(id)s, account_id, id, %(since)s, %(until)s,
    coalesce((SELECT position FROM webhooks_event WHERE id < %(first_id)s AND created_at < %(first_at)s
        AND position IS NOT NULL ORDER BY id DESC LIMIT 1), -1),
    'ffffffff-ffff-ffff-ffff-ffffffffffff',
    least(webhooks_feed_position(), (SELECT position FROM webhooks_event WHERE id >= %(last_id)s
        AND created_at BETWEEN %(last_at)s AND now() AND position IS NOT NULL ORDER BY id LIMIT 1))
FROM webhook
RETURNING id
"""

# Two recoveries of one webhook could write the same delivery twice. So the webhook's row is locked first, and only the
# next statement looks at what there is. It locks deliveries whose results workers cannot write meanwhile, and such a
# worker claims nothing. So PostgreSQL ends the session if it then says nothing for a moment: its host may be gone.
_LOCK = """
WITH recovery AS MATERIALIZED (
    SELECT id, webhook_id FROM webhooks_recovery WHERE id = %(id)s FOR UPDATE SKIP LOCKED
), webhook AS MATERIALIZED (
    SELECT id FROM webhooks_webhook
    WHERE id = (SELECT webhook_id FROM recovery) AND deleted_at IS NULL AND is_active FOR NO KEY UPDATE
)
SELECT (SELECT count(*) FROM recovery), (SELECT count(*) FROM webhook),
    set_config('idle_in_transaction_session_timeout', %(held_for)s, true)
"""

# Deliveries become due in the order of their events. The row of the last event that was looked at gives its time; at
# first there is no such event, and the search begins after the position.
_STEP = f"""
WITH recovery AS MATERIALIZED (
    SELECT r.*, least(r.stop_at, webhooks_feed_horizon()) AS bound,
        coalesce((SELECT created_at FROM webhooks_event WHERE id = r.event_id), 'infinity') AS event_at
    FROM webhooks_recovery r WHERE r.id = %(id)s
), page AS MATERIALIZED (
    SELECT found.id, found.position, found.created_at
    FROM recovery JOIN webhooks_webhook w ON w.id = recovery.webhook_id CROSS JOIN unnest(w.events) AS kinds(kind)
    CROSS JOIN LATERAL (
        SELECT id, position, created_at FROM webhooks_event
        WHERE account_id = recovery.account_id AND kind = kinds.kind
          AND (position, created_at, id) > (recovery.position, recovery.event_at, recovery.event_id)
          AND position < recovery.bound
        ORDER BY position, created_at, id LIMIT %(batch)s
    ) AS found
    ORDER BY found.position, found.created_at, found.id LIMIT %(batch)s
), event AS MATERIALIZED (
    SELECT page.id, page.created_at, recovery.webhook_id, recovery.account_id,
        clock_timestamp() + row_number() OVER in_order * interval '1 microsecond' AS turn
    FROM page CROSS JOIN recovery WHERE page.created_at >= recovery.since AND page.created_at < recovery.until
    WINDOW in_order AS (ORDER BY page.position, page.created_at, page.id)
), known AS MATERIALIZED (
    SELECT d.id, d.event_id, d.status, d.attempt_count FROM webhooks_delivery d
    WHERE d.event_id = ANY(ARRAY(SELECT id FROM event)) AND d.webhook_id = (SELECT webhook_id FROM recovery)
    ORDER BY d.id FOR UPDATE
), again AS (
    UPDATE webhooks_delivery d SET
        status = 'pending', retries_left = least(%(retries)s, %(most)s - known.attempt_count - 1),
        next_attempt_at = event.turn, finished_at = NULL
    FROM known JOIN event ON event.id = known.event_id
    WHERE d.id = known.id AND known.status IN ('failed', 'dropped') AND known.attempt_count < %(most)s
    RETURNING 1
), missed AS (
    {events.new_deliveries("event.webhook_id", retries="%(retries)s", due_at="event.turn")}
    FROM event WHERE event.id NOT IN (SELECT event_id FROM known)
    RETURNING 1
), moved AS (
    UPDATE webhooks_recovery r SET position = last.position, event_id = last.id
    FROM (SELECT position, id FROM page ORDER BY position DESC, created_at DESC, id DESC LIMIT 1) AS last
    WHERE r.id = %(id)s
)
SELECT (SELECT count(*) FROM again) + (SELECT count(*) FROM missed), (SELECT count(*) FROM page),
    (SELECT bound >= stop_at FROM recovery)
"""  # noqa: S608  (our own text)


class StillRecovering(Refused):
    """MOST_AT_ONCE recoveries of the webhook are not over yet."""

    code, status = "rate_limited", HTTPStatus.TOO_MANY_REQUESTS
    wait = 10  # seconds, after which a worker has gone on with them
    message = _("Earlier recoveries of this webhook are still going on. Try again when one is over.")


class Recovered(NamedTuple):
    """How many deliveries will be sent, and whether that is all; otherwise a worker goes on."""

    deliveries: int
    is_over: bool


def recover(
    account_id: UUID,
    webhook_id: UUID,
    *,
    since: datetime,
    until: datetime | None = None,
    note: Callable[[], None] | None = None,
) -> Recovered:
    """Send what failed, was dropped or was missed of the changes from `since` to `until` (or now): each once, by age.

    This concerns the kinds that the webhook subscribes to now. Each delivery begins its schedule anew, within
    `resending.MOST_ATTEMPTS`. What takes longer than SECONDS is left to `go_on`. `note` is called in the transaction
    that begins the recovery. Must not run inside a transaction.

    Raises Webhook.DoesNotExist, events.WebhookOff, StillRecovering.
    """
    id_ = uuid7()
    with transaction.atomic(durable=True):
        # Later changes are not part of it. The minute is for changes that are dated after the one before them.
        until, _lock = postgresql.row(_BEGIN_ALONE, [until, webhook_id])
        first, last = since - feed.LONGEST_TRANSACTION, until + feed.LONGEST_TRANSACTION
        is_begun = postgresql.row(
            _BEGIN,
            {
                "id": id_,
                "account_id": account_id,
                "webhook_id": webhook_id,
                "most": MOST_AT_ONCE,
                "since": since,
                "until": until,
                "first_at": first,
                "first_id": feed.first_id(first),
                "last_at": last,
                "last_id": feed.first_id(last),
            },
        )
        if is_begun and note:
            note()
    if not is_begun:
        if Webhook.of(account_id).filter(id=webhook_id, is_active=True).exists():
            raise StillRecovering
        raise events.off_or_gone(account_id, webhook_id)
    # Failures from now on are not the caller's error: the recovery has begun, and goes on later.
    count, step, deadline = 0, _Step(0, is_over=False, has_more=True), time.monotonic() + SECONDS
    while step.has_more and time.monotonic() < deadline:
        step = _step_or_later(id_)
        count += step.deliveries
    if count:
        wakeup.ring()
    return Recovered(count, step.is_over)


def go_on() -> int:
    """Go on with recoveries that requests have left. Returns how many deliveries.

    Webhooks take turns, one batch each, so that one with much to recover, or many recoveries, does not hold up others.
    No turn begins after WORKER_SECONDS, and no batch once the worker stops.
    """
    deadline = time.monotonic() + WORKER_SECONDS
    count, later = 0, list[UUID]()  # webhooks
    while time.monotonic() < deadline and (turn := _oldest_of_each(later)):
        for webhook_id, id_ in turn:
            if stops.stopping.is_set():
                return count
            step = _step_or_later(id_)
            if step.deliveries:
                count += step.deliveries
                wakeup.ring()
            if not (step.is_over or step.has_more):
                later.append(webhook_id)
    return count


def _oldest_of_each(later: Sequence[UUID]) -> list[tuple[UUID, UUID]]:
    """Return webhook id and recovery id for the oldest recovery of each webhook that is not in `later`.

    In a random order, and of many webhooks some, so that none is always behind the same others.
    """
    recoveries = Recovery.objects.exclude(webhook_id__in=later).order_by("webhook_id", "id").distinct("webhook_id")
    oldest = Recovery.objects.filter(id__in=recoveries.values("id")).order_by("?")
    return list(oldest.values_list("webhook_id", "id")[:_TURN])


class _Step(NamedTuple):
    """One batch of a recovery: how many deliveries, whether it is over, and whether the next batch can follow now."""

    deliveries: int
    is_over: bool
    has_more: bool


def _step_or_later(id_: UUID) -> _Step:
    """Run `_step`, or do nothing while the database cannot do it."""
    try:
        return _step(id_)
    except DatabaseError as error:
        logger.warning("recovery %s was interrupted and will be continued: %s", id_, error)
        return _Step(0, is_over=False, has_more=False)


def _step(id_: UUID) -> _Step:
    with transaction.atomic():
        recoveries, webhooks, _timeout = postgresql.row(_LOCK, {"id": id_, "held_for": delivery.HELD_OFF_FOR})
        if not recoveries:  # another worker is at it, or it is over
            return _Step(0, is_over=not Recovery.objects.filter(id=id_).exists(), has_more=False)
        deliveries, looked_at, is_end = 0, 0, True
        if webhooks:
            values = {"id": id_, "batch": BATCH, "retries": RETRIES, "most": resending.MOST_ATTEMPTS}
            deliveries, looked_at, is_end = postgresql.row(_STEP, values)
        is_over = is_end and looked_at < BATCH
        if is_over:
            Recovery.objects.filter(id=id_).delete()
    return _Step(deliveries, is_over, has_more=looked_at == BATCH)

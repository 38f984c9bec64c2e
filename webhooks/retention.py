"""Forgetting what is old, in small batches: no statement locks much or for long, whatever the tables hold."""

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from webhooks import registry
from webhooks.models import Attempt, Delivery, Event, Webhook

BATCH = 2000  # rows a statement


def old_deliveries(webhook_id: UUID, before: datetime) -> QuerySet[Delivery]:
    """Finished, of changes before that time and finished before it too. Read through the log's index."""
    return Delivery.objects.filter(webhook_id=webhook_id, created_at__lt=before, finished_at__lt=before).exclude(
        status=Delivery.Status.PENDING
    )


def forget_deliveries(webhook_id: UUID, before: datetime) -> Iterator[tuple[int, int]]:
    """Delete old deliveries of one webhook with their attempts; how many of each, batch by batch."""
    while True:
        with transaction.atomic():
            ids = list(
                old_deliveries(webhook_id, before)
                .order_by("created_at")
                .select_for_update(skip_locked=True)
                .values_list("id", flat=True)[:BATCH]
            )
            attempts = _delete(Attempt.objects.filter(delivery_id__in=ids))
            deliveries = _delete(Delivery.objects.filter(id__in=ids))
        yield deliveries, attempts
        if len(ids) < BATCH:
            return


def old_events(before: datetime) -> QuerySet[Event]:
    """Without deliveries. Their ids sort by time, so that no index on the time is needed."""
    has_deliveries = Exists(Delivery.objects.filter(event_id=OuterRef("id")))
    return Event.objects.filter(~has_deliveries, id__lt=_first_id(before))


def forget_events(before: datetime) -> Iterator[int]:
    """Delete old events that have no delivery any more, or never had one."""
    last = UUID(int=0)
    while True:
        ids = list(
            Event.objects.filter(id__gt=last, id__lt=_first_id(before))
            .order_by("id")
            .values_list("id", flat=True)[:BATCH]
        )
        yield _delete(old_events(before).filter(id__in=ids))
        if len(ids) < BATCH:
            return
        last = ids[-1]


def old_webhooks(before: datetime) -> QuerySet[Webhook]:
    """Deleted before that time, with an empty log."""
    return Webhook.objects.filter(~Exists(Delivery.objects.filter(webhook_id=OuterRef("id"))), deleted_at__lt=before)


def forget_webhooks(before: datetime) -> int:
    return _delete(old_webhooks(before))


def forget_previous_secrets() -> int:
    """Delete the secrets that have stopped signing."""
    return Webhook.objects.filter(previous_secret_until__lt=Now()).update(
        previous_secret=None, previous_secret_until=None
    )


def drop_left_over() -> int:
    """Drop what a deletion that was cut short has left pending."""
    deleted = Webhook.objects.filter(deleted_at__isnull=False).values_list("id", flat=True)
    return sum(registry.drop_pending(webhook_id) for webhook_id in list(deleted))


def _first_id(at: datetime) -> UUID:
    """The least UUIDv7 of this millisecond."""
    return UUID(int=(int(at.timestamp() * 1000) << 80) | 7 << 76 | 2 << 62)


def _delete(rows: QuerySet) -> int:
    """By one statement: nothing that hangs on these rows is left for Django to collect."""
    return rows._raw_delete(rows.db) or 0

"""Anonymising the customers of old orders, as Algeria's law on personal data (18-07) asks for.

An order that ended CUSTOMER_RETENTION_DAYS ago, and has no call note from these days, no longer needs its customer:
`orders.anonymising` says what is overwritten.

Test orders, those of accounts' twins, are deleted TEST_ORDERS_KEPT after their import, with the answers that are kept
for calls about them. Their events stay longer, as the feed promises, but lose their customers at the same time: later,
without the orders, nobody could find them to erase.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from codservice import postgresql
from codservice.api import idempotency
from codservice.api.models import KEPT_FOR
from orders import anonymising
from orders.models import ENDED, CallNote, Order
from webhooks import redaction

BATCH = 200  # orders that one transaction anonymises or deletes
LOOK = 10_000  # test orders whose events are searched at once, which takes as long as for one order
TEST_ORDERS_KEPT = timedelta(days=30)  # docs/test-mode.md

_ENDED = tuple(map(str, ENDED))  # its repr is also SQL
# Uses the index `order_to_anonymise`.
_IS_OLD = f"status IN {_ENDED} AND anonymised_at IS NULL AND updated_at < now() - %(kept)s::interval"
_IS_QUIET = """NOT EXISTS (
    SELECT FROM orders_callnote n WHERE n.order_id = o.id AND n.created_at >= now() - %(kept)s::interval)"""
# A statement of its own, so that the one that anonymises sees what was written until the lock.
_LOCK_OLD = f"""
SELECT id FROM orders_order o WHERE {_IS_OLD} AND {_IS_QUIET}
ORDER BY updated_at LIMIT %(batch)s FOR NO KEY UPDATE SKIP LOCKED
"""  # noqa: S608  (of our own text)
# A call may have been noted just before the lock.
_ANONYMISE = anonymising.statement(f"""
    SELECT id FROM orders_order o WHERE id = ANY(%(orders)s) AND {_IS_QUIET}
""")  # noqa: S608  (of our own text)
_COUNT = f"SELECT count(*) FROM orders_order o WHERE {_IS_OLD} AND {_IS_QUIET}"  # noqa: S608  (of our own text)


def anonymise_customers(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Overwrite the customers of orders that ended CUSTOMER_RETENTION_DAYS ago; of none if that is 0.

    A sweep of `codservice.retention`; ignores `before`.
    """
    if not settings.CUSTOMER_RETENTION_DAYS:
        yield {"customers": 0}
        return
    kept = timedelta(days=settings.CUSTOMER_RETENTION_DAYS)
    parameters = {"kept": kept, "batch": BATCH, **anonymising.PARAMETERS}
    if dry_run:
        yield {"customers": _count(_COUNT, parameters)}
        return
    size = BATCH
    while size == BATCH:
        with transaction.atomic():
            locked = [id_ for (id_,) in postgresql.rows(_LOCK_OLD, parameters)]
            done = postgresql.execute(_ANONYMISE, {**parameters, "orders": locked})
            size = len(locked)
        yield {"customers": done}


def _count(statement: str, parameters: dict[str, Any]) -> int:
    with transaction.atomic():
        postgresql.take_time()
        count: int = postgresql.row(statement, parameters)[0]
    return count


# Uses the index `order_of_twin`, and goes on after the last order chosen: locked orders stay, and are not chosen again.
_OLD_TESTS = """
SELECT account_id, created_at, id FROM orders_order
WHERE call_state = 'test' AND created_at < now() - %(kept)s::interval AND (created_at, id) > (%(at)s, %(id)s)
ORDER BY created_at, id LIMIT %(look)s
"""
_COUNT_TESTS = """
SELECT count(*) FROM orders_order WHERE call_state = 'test' AND created_at < now() - %(kept)s::interval
"""


def delete_test_orders(before: datetime, *, dry_run: bool) -> Iterator[dict[str, int]]:
    """Delete the orders of accounts' twins that were imported TEST_ORDERS_KEPT ago, and their customers from events.

    A sweep of `codservice.retention`; ignores `before`.
    """
    parameters = {"kept": TEST_ORDERS_KEPT}
    if dry_run:
        yield {"test_orders": _count(_COUNT_TESTS, parameters)}
        return
    at, id_, size = datetime.min.replace(tzinfo=UTC), UUID(int=0), LOOK
    while size == LOOK:
        old = postgresql.rows(_OLD_TESTS, {**parameters, "look": LOOK, "at": at, "id": id_})
        size = len(old)
        if not old:
            yield {"test_orders": 0}
            return
        at, id_ = old[-1][1:]
        of_twins: dict[UUID, list[UUID]] = {}
        for account_id, _created_at, order_id in old:
            of_twins.setdefault(account_id, []).append(order_id)
        for account_id, ids in of_twins.items():
            told = redaction.events_of(account_id, ids)
            for start in range(0, len(ids), BATCH):
                yield {"test_orders": _delete_tests(ids[start : start + BATCH], told)}


def _delete_tests(ids: list[UUID], told: redaction.Found) -> int:
    """Delete these orders of one twin, except those that are locked. Returns how many were deleted."""
    with transaction.atomic():
        orders = Order.objects.filter(id__in=ids).order_by("id").select_for_update(skip_locked=True)
        locked = list(orders.values_list("id", flat=True))
        # Of old orders, only calls have answers that are still kept; most orders have none, and spare us the search.
        calls = CallNote.objects.filter(order__in=locked, created_at__gte=Now() - KEPT_FOR)
        if called := set(calls.values_list("order_id", flat=True)):
            idempotency.forget(told.account_id, called)
        Order.objects.filter(id__in=locked).delete()  # and what belongs to them, as it is since the lock
        redaction.overwrite(told.of(locked), anonymising.TOLD)  # deleted orders have no more events after these
    return len(locked)

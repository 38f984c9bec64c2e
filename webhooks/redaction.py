"""Removing a person's data from events' bodies, and so from the feed and the log of deliveries.

Whatever is shown, or claimed to be sent, after the commit has the replacements. A post that was claimed just before it
may still begin, within `delivery.BEGIN_WITHIN`. Receivers keep what they were sent.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from codservice import postgresql
from codservice.long_lists import IsOneOf
from codservice.wire import dump_json, load_json
from webhooks import delivery
from webhooks.models import Event
from webhooks.queue import NOBODY

_PAGE = 5000  # events that one statement looks at
_ORDER_KINDS = [kind for kind in Event.Kind.values if kind.startswith("order.")]

# Uses the index `event_in_feed`, kind by kind.
_FIND = """
WITH page AS (
    SELECT position, created_at, id, body::json #>> '{data,id}' AS order_id FROM webhooks_event
    WHERE account_id = %(account_id)s AND kind = %(kind)s
      AND (position, created_at, id) > (%(position)s, %(at)s::timestamptz, %(id)s)
    ORDER BY position, created_at, id LIMIT %(page)s
)
SELECT ARRAY(SELECT ARRAY[order_id, id::text] FROM page WHERE order_id = ANY(%(orders)s)), count(*) OVER (),
    position, created_at, id
FROM page ORDER BY position DESC, created_at DESC, id DESC LIMIT 1
"""
# Nobody claims or settles these deliveries until the transaction ends. This is a statement of its own, so that the next
# one sees what was settled before.
_LOCK = "SELECT FROM webhooks_delivery WHERE event_id = ANY(%s) ORDER BY id FOR UPDATE"
_OVERWRITE = """
UPDATE webhooks_event e SET body = changed.body FROM json_to_recordset(%s::json) AS changed(id uuid, body text)
WHERE e.id = changed.id
"""
# The answer to an attempt that is under way may repeat what it was sent, so it must not be written any more. The
# delivery is sent again when its claim has run out.
_FORGET = f"""
WITH delivery AS MATERIALIZED (
    SELECT id FROM webhooks_delivery WHERE event_id = ANY(%s)
), under_way AS (
    UPDATE webhooks_claim SET token = '{NOBODY}' WHERE delivery_id IN (SELECT id FROM delivery)
)
UPDATE webhooks_attempt SET response = '' WHERE delivery_id IN (SELECT id FROM delivery) AND response <> ''
"""  # noqa: S608  (of our own text)


class Found(NamedTuple):
    """Ids of events of an account's orders, by order. Events that are written later have a position from `since` on."""

    account_id: UUID
    by_order: dict[UUID, list[UUID]]
    since: int

    def of(self, orders: Collection[UUID]) -> list[UUID]:
        """The events of some of the orders, also those that were written since."""
        later = events_of(self.account_id, orders, since=self.since)
        return [event for order in orders for event in (*self.by_order[order], *later.by_order[order])]


def events_of(account_id: UUID, orders: Collection[UUID], *, since: int = -1) -> Found:
    """Find the events of these orders, from position `since` on.

    Looks at all order events of the account, page by page, without locks. That takes seconds for a million of them, and
    as long for one order as for thousands.
    """
    found: dict[UUID, list[UUID]] = {order: [] for order in orders}
    ids = [*map(str, found)]
    (horizon,) = postgresql.row("SELECT webhooks_feed_horizon()")
    for kind in _ORDER_KINDS:
        place, size = (since, "-infinity", UUID(int=0)), _PAGE
        while size == _PAGE:
            after = dict(zip(("position", "at", "id"), place, strict=True))
            values = {"account_id": account_id, "kind": kind, "orders": ids, "page": _PAGE, **after}
            events, size, *place = postgresql.row(_FIND, values) or ([], 0, *place)
            for order, event in events:
                found[UUID(order)].append(UUID(event))
    return Found(account_id, found, horizon)


def overwrite(
    events: Collection[UUID],
    members: Mapping[str, Any],
    *,
    where: Callable[[Mapping[str, Any]], bool] = lambda data: True,
) -> None:
    """Replace these members of the events' `data`, where present, and forget what receivers answered or are answering.

    Runs in the caller's transaction, as the last of its statements: from when this returns until that ends, nothing is
    claimed. Changes only events whose data pass `where`.
    """
    changed = []
    for id_, body in Event.objects.filter(IsOneOf("id", [*events])).values_list("id", "body"):
        told = load_json(body.encode())
        if where(told["data"]):
            told["data"] |= {name: value for name, value in members.items() if name in told["data"]}
            changed.append({"id": id_, "body": dump_json(told).decode()})
    if not changed:
        return  # and hold nobody up
    ids = [each["id"] for each in changed]
    postgresql.execute(_OVERWRITE, [dump_json(changed).decode()])  # first, since that may be megabytes
    # A claim that has begun sees the bodies as they were, and would find the deliveries free after the commit. So it
    # ends before, and its attempts are forgotten too.
    delivery.hold_off_claims()
    postgresql.execute(_LOCK, [ids])
    postgresql.execute(_FORGET, [ids])

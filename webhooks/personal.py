"""Taking a person out of what was told of them: out of events' bodies, the feed, the log of deliveries.

Whatever is sent or shown from then on says what was put in their place; what a receiver was sent before, it has.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from codservice.long_lists import IsOneOf
from codservice.wire import dump_json, load_json
from webhooks.models import Event
from webhooks.queue import NOBODY

_PAGE = 5000  # events that a statement looks at
_ORDER_KINDS = [kind for kind in Event.Kind.values if kind.startswith("order.")]

# Along the index `event_in_feed`, kind by kind.
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
# Nobody claims or settles these deliveries until the transaction ends. A statement of its own: the next one sees what
# was settled until then.
_LOCK = "SELECT FROM webhooks_delivery WHERE event_id = ANY(%s) ORDER BY id FOR UPDATE"
# The answer to an attempt that is under way may repeat what it was sent: it is not ours to note any more, and the
# delivery is sent again when its claim has run out.
_OVERWRITE = f"""
WITH changed AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%s::json) AS t(id uuid, body text)
), bodies AS (
    UPDATE webhooks_event e SET body = changed.body FROM changed WHERE e.id = changed.id
), delivery AS MATERIALIZED (
    SELECT d.id FROM webhooks_delivery d JOIN changed ON d.event_id = changed.id
), under_way AS (
    UPDATE webhooks_claim SET token = '{NOBODY}' WHERE delivery_id IN (SELECT id FROM delivery)
)
UPDATE webhooks_attempt SET response = '' WHERE delivery_id IN (SELECT id FROM delivery) AND response <> ''
"""  # noqa: S608  (of our own text)


class Found(NamedTuple):
    """Ids of events by the order that they tell of; what is written later has a position of `since` at least."""

    by_order: dict[UUID, list[UUID]]
    since: int

    def of(self, orders: Iterable[UUID]) -> list[UUID]:
        return [event for order in orders for event in self.by_order.get(order, ())]


def events_of(account_id: UUID, orders: Collection[UUID], *, since: int = -1) -> Found:
    """The events that tell of these orders, of this position and later ones.

    Looks at all the account's events of orders, page by page, and holds nothing: seconds for a million of them, as long
    for one order as for thousands.
    """
    ids, found = [str(order) for order in orders], defaultdict[UUID, list[UUID]](list)
    with connection.cursor() as cursor:
        cursor.execute("SELECT webhooks_feed_horizon()")
        horizon = cursor.fetchone()[0]
        for kind in _ORDER_KINDS:
            place, size = (since, "-infinity", UUID(int=0)), _PAGE
            while size == _PAGE:
                after = dict(zip(("position", "at", "id"), place, strict=True))
                cursor.execute(_FIND, {"account_id": account_id, "kind": kind, "orders": ids, "page": _PAGE, **after})
                events, size, *place = cursor.fetchone() or ([], 0, *place)
                for order, event in events:
                    found[UUID(order)].append(UUID(event))
    return Found(found, horizon)


def overwrite(
    events: Collection[UUID],
    members: Mapping[str, Any],
    *,
    where: Callable[[Mapping[str, Any]], bool] = lambda data: True,
) -> None:
    """Give these members of the events' `data` other values, where they are there, and forget what receivers answered
    or are answering. In the caller's transaction; only events whose data pass `where` are changed.
    """
    changed = []
    for id_, body in Event.objects.filter(IsOneOf("id", [*events])).values_list("id", "body"):
        told = load_json(body.encode())
        if where(told["data"]):
            told["data"] |= {name: value for name, value in members.items() if name in told["data"]}
            changed.append({"id": id_, "body": dump_json(told).decode()})
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [[each["id"] for each in changed]])
        cursor.execute(_OVERWRITE, [dump_json(changed).decode()])

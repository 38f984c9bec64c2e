"""How the queue of deliveries stands: what is waiting, for statements; figures for `/readyz` and operators."""

from typing import Any
from uuid import UUID

from django.db import DatabaseError, connection

from codservice.operations import duties

MOST_COUNTED = 10_000  # due deliveries; how many more there are changes nothing
LATE = 60.0  # seconds after which a due delivery that nobody takes means that the workers do not keep up

# The lanes of the queue, in the order of service: what is in them. Each has an index of its own (`Delivery`), along
# which a statement goes that asks for this lane alone.
LANES = {
    "first_attempts": "status = 'pending' AND attempt_count = 0",
    "retries": "status = 'pending' AND attempt_count > 0",
}


def of_each_lane(part: str, between: str = " UNION ALL ", **words: str) -> str:
    """This part of a statement for either lane, with its {name}, its {number}, what {is_in_it}, and `words`."""
    lanes = enumerate(LANES.items(), start=1)
    return between.join(part.format(number=n, name=name, is_in_it=is_in_it, **words) for n, (name, is_in_it) in lanes)


# The webhooks that have something waiting, and when its oldest is due: by lanes, and of both. The beginning of a
# statement; it hops through the lanes' indexes from webhook to webhook, so that its cost is theirs and not the rows'.
_HEADS_OF_LANE = """{name} (webhook_id, due_at) AS (
    (SELECT webhook_id, next_attempt_at FROM webhooks_delivery
     WHERE {is_in_it} ORDER BY webhook_id, next_attempt_at LIMIT 1)
    UNION ALL
    SELECT d.webhook_id, d.next_attempt_at FROM {name} h CROSS JOIN LATERAL (
        SELECT webhook_id, next_attempt_at FROM webhooks_delivery
        WHERE {is_in_it} AND webhook_id > h.webhook_id
        ORDER BY webhook_id, next_attempt_at LIMIT 1) AS d
)"""
HEADS = f"""
WITH RECURSIVE {of_each_lane(_HEADS_OF_LANE, between=", ")}, heads AS (
    {of_each_lane("SELECT * FROM {name}")}
)"""  # noqa: S608  (of our own text)


_UNCLAIMED = """(
SELECT {number} AS lane, d.id, d.next_attempt_at FROM webhooks_delivery d
WHERE d.webhook_id = {webhook} AND {is_in_it} AND d.next_attempt_at <= now()
    AND NOT EXISTS (SELECT FROM webhooks_claim c WHERE c.delivery_id = d.id AND c.until > now())
ORDER BY d.next_attempt_at LIMIT {most})"""


def unclaimed(webhook: str, most: str) -> str:
    """What is due of this webhook and claimed by nobody, as a query: the oldest `most` of each lane."""
    return of_each_lane(_UNCLAIMED, webhook=webhook, most=most)


NOBODY = UUID(int=0)  # has the claims of what is put off: it waits, and no attempt of it is under way
UNDER_WAY = f"""(
    SELECT * FROM webhooks_claim WHERE until > now() AND token <> '{NOBODY}'
) AS under_way"""  # noqa: S608  (of our own text)

# A webhook with an attempt under way is being served, and one that fails waits for itself, while a worker lives.
_OLDEST_DUE = f"""{HEADS}, unserved AS MATERIALIZED (
    SELECT id FROM webhooks_webhook
    WHERE id IN (SELECT webhook_id FROM heads WHERE due_at <= now()) AND deleted_at IS NULL AND is_active
      AND (%(with_failing)s OR NOT is_failing) AND id NOT IN (SELECT webhook_id FROM {UNDER_WAY})
)
SELECT COALESCE(EXTRACT(EPOCH FROM now() - min(next_attempt_at)), 0)::float
FROM unserved u CROSS JOIN LATERAL ({unclaimed("u.id", most="1")}) AS oldest
"""  # noqa: S608  (of our own text)

_DUE_OF_LANE = """
    SELECT FROM {name} h JOIN webhooks_delivery d ON d.webhook_id = h.webhook_id
    WHERE h.due_at <= now() AND {is_in_it} AND d.next_attempt_at <= now()
"""
_DUE = f"""{HEADS}
SELECT count(*) FROM ({of_each_lane(_DUE_OF_LANE)} LIMIT {MOST_COUNTED}) AS counted
"""  # noqa: S608  (of our own text)


def due() -> int:
    """How many deliveries are due, those under way included; at most MOST_COUNTED."""
    return _one(_DUE)


def claims() -> int:
    """How many attempts workers have claimed and not settled."""
    return _one(f"SELECT count(*) FROM {UNDER_WAY}")  # noqa: S608  (of our own text)


def oldest_due() -> float:
    """For how many seconds the oldest due delivery has waited for a worker; 0 when none waits.

    Those of webhooks whose receivers are being posted to, or fail while any worker lives, do not count: they wait for
    their receivers.
    """
    return _one(_OLDEST_DUE, {"with_failing": not _a_worker_lives()})


def _a_worker_lives() -> bool:
    age = duties.age("worker")
    return age is not None and age < LATE


def _one(sql: str, parameters: dict[str, Any] | None = None) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()[0]


def problem() -> str:
    """What is wrong with the queue, for `/readyz`; empty when it is well."""
    try:
        age = oldest_due()
    except DatabaseError:
        return "cannot be looked at: see to the database first"
    if age <= LATE:
        return ""
    return f"the oldest due delivery waits for {age:.0f} s: see that workers run, and start more when all are busy"

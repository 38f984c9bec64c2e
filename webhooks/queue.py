"""The state of the queue of deliveries: SQL for what is waiting, and figures for `/readyz` and operators."""

from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import DatabaseError

from codservice import postgresql
from codservice.operations import duties
from webhooks import retries

MOST_COUNTED = 10_000  # due deliveries; an exact count beyond that would be of no use
LATE = 60.0  # seconds; a due delivery that waits longer for a worker means that the workers do not keep up


class Lane(NamedTuple):
    """A part of the queue. Its index (`Delivery`) serves statements that have its `condition`, one lane at a time."""

    number: int  # lanes are served in this order
    name: str
    condition: str
    longest_wait: timedelta  # of a delivery in it, until it is due


LANES = (
    # Due when they are written, or one shortly after the other in a recovery.
    Lane(1, "first_attempts", "status = 'pending' AND attempt_count = 0", longest_wait=timedelta(0)),
    Lane(2, "retries", "status = 'pending' AND attempt_count > 0", longest_wait=max(retries.SCHEDULE)),
)


def from_lanes(columns: str) -> str:
    """Return a query for these columns of all lanes; in its statement, each lane's name is a table."""
    return " UNION ALL ".join(f"SELECT {columns} FROM {lane.name}" for lane in LANES)  # noqa: S608  (of our own text)


def _heads(lane: Lane) -> str:
    return f"""{lane.name} (webhook_id, due_at) AS (
    (SELECT webhook_id, next_attempt_at FROM webhooks_delivery
     WHERE {lane.condition} ORDER BY webhook_id, next_attempt_at LIMIT 1)
    UNION ALL
    SELECT d.webhook_id, d.next_attempt_at FROM {lane.name} h CROSS JOIN LATERAL (
        SELECT webhook_id, next_attempt_at FROM webhooks_delivery
        WHERE {lane.condition} AND webhook_id > h.webhook_id
        ORDER BY webhook_id, next_attempt_at LIMIT 1) AS d
)"""  # noqa: S608  (of our own text)


# The beginning of a statement: the webhooks that have something waiting, and when their oldest is due, for each lane
# and for both. It hops through the lanes' indexes from webhook to webhook, so its cost grows with webhooks, not rows.
HEADS = f"""
WITH RECURSIVE {", ".join(map(_heads, LANES))}, heads AS (
    {from_lanes("*")}
)"""


def unclaimed(webhook: str, most: str) -> str:
    """Return a query for the due and unclaimed deliveries of this webhook: the oldest `most` of each lane."""
    return " UNION ALL ".join(
        f"""(
SELECT {lane.number} AS lane, d.id, d.next_attempt_at FROM webhooks_delivery d
WHERE d.webhook_id = {webhook} AND {lane.condition} AND d.next_attempt_at <= now()
    AND NOT EXISTS (SELECT FROM webhooks_claim c WHERE c.delivery_id = d.id AND c.until > now())
ORDER BY d.next_attempt_at LIMIT {most})"""  # noqa: S608  (of our own text)
        for lane in LANES
    )


# The token on claims that no worker settles any more: of deliveries that are put off, and of attempts whose answer must
# not be written (`redaction`). They do not count as under way.
NOBODY = UUID(int=0)
UNDER_WAY = f"""(
    SELECT * FROM webhooks_claim WHERE until > now() AND token <> '{NOBODY}'
) AS under_way"""  # noqa: S608  (of our own text)

# A webhook with an attempt under way is being served. One that fails waits for its receiver, while a worker is alive.
_OLDEST_DUE = f"""{HEADS}, unserved AS MATERIALIZED (
    SELECT id FROM webhooks_webhook
    WHERE id IN (SELECT webhook_id FROM heads WHERE due_at <= now()) AND deleted_at IS NULL AND is_active
      AND (%(with_failing)s OR NOT is_failing) AND id NOT IN (SELECT webhook_id FROM {UNDER_WAY})
)
SELECT COALESCE(EXTRACT(EPOCH FROM now() - min(next_attempt_at)), 0)::float
FROM unserved u CROSS JOIN LATERAL ({unclaimed("u.id", most="1")}) AS oldest
"""  # noqa: S608  (of our own text)

_DUE_OF_LANES = " UNION ALL ".join(
    f"""
    SELECT 1 FROM {lane.name} h JOIN webhooks_delivery d ON d.webhook_id = h.webhook_id
    WHERE h.due_at <= now() AND {lane.condition} AND d.next_attempt_at <= now()"""  # noqa: S608  (of our own text)
    for lane in LANES
)
_DUE = f"""{HEADS}
SELECT count(*) FROM ({_DUE_OF_LANES} LIMIT {MOST_COUNTED}) AS counted
"""  # noqa: S608  (of our own text)


def count_due() -> int:
    """Count the deliveries that are due, including those under way; at most MOST_COUNTED."""
    return postgresql.row(_DUE)[0]


def count_claims() -> int:
    """Count the attempts that workers have claimed and not settled."""
    return postgresql.row(f"SELECT count(*) FROM {UNDER_WAY}")[0]  # noqa: S608  (of our own text)


def oldest_due() -> float:
    """Return how many seconds the oldest due delivery has waited for a worker; 0 when none waits.

    Deliveries to webhooks that are being posted to, or that fail while any worker is alive, do not count: they wait for
    their receivers.
    """
    return postgresql.row(_OLDEST_DUE, {"with_failing": not _a_worker_lives()})[0]


def _a_worker_lives() -> bool:
    age = duties.age("worker")
    return age is not None and age < LATE


def problem() -> str:
    """Describe what is wrong with the queue, for `/readyz`; empty when it is well."""
    try:
        age = oldest_due()
    except DatabaseError:
        return "cannot be checked. Fix the database first."
    if age <= LATE:
        return ""
    return (
        f"the oldest due delivery has waited for {age:.0f} s. Check that workers run, and start more if all are busy."
    )

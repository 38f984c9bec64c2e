"""How the queue of deliveries stands, for `/readyz`, `check_service` and operators."""

from typing import Any

from django.db import DatabaseError, connection

from webhooks.delivery import WAITING

MOST_COUNTED = 10_000  # due deliveries; how many more there are changes nothing
LATE = 60.0  # seconds after which a due delivery that nobody takes means that the workers do not keep up

# It costs as much with a full queue as with an empty one. A webhook with an attempt under way is being served, and one
# that fails waits for itself.
_OLDEST_DUE = f"""{WAITING}, oldest AS (
    SELECT w.id, LEAST(
        (SELECT min(d.next_attempt_at) FROM webhooks_delivery d
         WHERE d.webhook_id = w.id AND d.status = 'pending' AND d.attempt_count = 0),
        (SELECT min(d.next_attempt_at) FROM webhooks_delivery d
         WHERE d.webhook_id = w.id AND d.status = 'pending' AND d.attempt_count > 0)) AS due_at
    FROM waiting
    JOIN webhooks_webhook w ON w.id = waiting.webhook_id AND w.deleted_at IS NULL AND NOT w.is_failing
    WHERE NOT EXISTS (SELECT FROM webhooks_claim c WHERE c.webhook_id = w.id AND c.until > now())
)
SELECT COALESCE(EXTRACT(EPOCH FROM now() - min(due_at)), 0)::float FROM oldest WHERE due_at <= now()
"""  # noqa: S608  (of our own text)

_DUE = f"""{WAITING}
SELECT count(*) FROM (
    SELECT FROM waiting CROSS JOIN LATERAL (
        SELECT FROM webhooks_delivery d WHERE d.webhook_id = waiting.webhook_id AND d.status = 'pending'
            AND d.attempt_count = 0 AND d.next_attempt_at <= now()
        UNION ALL
        SELECT FROM webhooks_delivery d WHERE d.webhook_id = waiting.webhook_id AND d.status = 'pending'
            AND d.attempt_count > 0 AND d.next_attempt_at <= now()
    ) AS due LIMIT {MOST_COUNTED}
) AS counted
"""  # noqa: S608  (of our own text)


def due() -> int:
    """How many deliveries are due, those under way included; at most MOST_COUNTED."""
    return _one(_DUE)


def claims() -> int:
    """How many attempts workers have claimed and not settled."""
    return _one("SELECT count(*) FROM webhooks_claim WHERE until > now()")


def oldest_due() -> float:
    """For how many seconds the oldest due delivery has waited for a worker; 0 when none waits.

    Those of webhooks whose receivers fail, or are being posted to, do not count: they wait for their receivers.
    """
    return _one(_OLDEST_DUE)


def _one(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
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

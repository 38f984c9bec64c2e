"""How the queue of deliveries stands: what is waiting, for statements; figures for `/readyz` and operators."""

from typing import Any

from django.db import DatabaseError, connection

from codservice.operations import duties

MOST_COUNTED = 10_000  # due deliveries; how many more there are changes nothing
LATE = 60.0  # seconds after which a due delivery that nobody takes means that the workers do not keep up

# The webhooks that have something waiting, and when its oldest is due: by the two lanes of the claim, and of both. The
# beginning of a statement; it hops through the lanes' indexes from webhook to webhook, so that its cost is theirs and
# not the rows'.
HEADS = """
WITH RECURSIVE first_attempts (webhook_id, due_at) AS (
    (SELECT webhook_id, next_attempt_at FROM webhooks_delivery
     WHERE status = 'pending' AND attempt_count = 0 ORDER BY webhook_id, next_attempt_at LIMIT 1)
    UNION ALL
    SELECT d.webhook_id, d.next_attempt_at FROM first_attempts f CROSS JOIN LATERAL (
        SELECT webhook_id, next_attempt_at FROM webhooks_delivery
        WHERE status = 'pending' AND attempt_count = 0 AND webhook_id > f.webhook_id
        ORDER BY webhook_id, next_attempt_at LIMIT 1) AS d
), retries (webhook_id, due_at) AS (
    (SELECT webhook_id, next_attempt_at FROM webhooks_delivery
     WHERE status = 'pending' AND attempt_count > 0 ORDER BY webhook_id, next_attempt_at LIMIT 1)
    UNION ALL
    SELECT d.webhook_id, d.next_attempt_at FROM retries r CROSS JOIN LATERAL (
        SELECT webhook_id, next_attempt_at FROM webhooks_delivery
        WHERE status = 'pending' AND attempt_count > 0 AND webhook_id > r.webhook_id
        ORDER BY webhook_id, next_attempt_at LIMIT 1) AS d
), heads AS (
    SELECT * FROM first_attempts UNION ALL SELECT * FROM retries
)"""

# A webhook with an attempt under way is being served, and one that fails waits for itself, while a worker lives.
_OLDEST_DUE = f"""{HEADS}
SELECT COALESCE(EXTRACT(EPOCH FROM now() - min(due_at)), 0)::float
FROM heads JOIN webhooks_webhook w ON w.id = heads.webhook_id AND w.deleted_at IS NULL AND w.is_active
WHERE due_at <= now() AND (%(with_failing)s OR NOT w.is_failing)
  AND w.id NOT IN (SELECT webhook_id FROM webhooks_claim WHERE until > now())
"""  # noqa: S608  (of our own text)

_DUE = f"""{HEADS}
SELECT count(*) FROM (
    SELECT FROM first_attempts f JOIN webhooks_delivery d ON d.webhook_id = f.webhook_id
    WHERE f.due_at <= now() AND d.status = 'pending' AND d.attempt_count = 0 AND d.next_attempt_at <= now()
    UNION ALL
    SELECT FROM retries r JOIN webhooks_delivery d ON d.webhook_id = r.webhook_id
    WHERE r.due_at <= now() AND d.status = 'pending' AND d.attempt_count > 0 AND d.next_attempt_at <= now()
    LIMIT {MOST_COUNTED}
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

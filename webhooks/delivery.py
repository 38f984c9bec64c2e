"""Claims deliveries that are due and settles how they went; `webhooks.queue` has the SQL of what is waiting.

The rows in PostgreSQL are the queue, and due times are compared with its clock only. A claim takes a batch in one short
statement and gives it to this worker for LEASE. The posts go out in a sliding window, outside any transaction. Another
short statement settles results in bulk and counts only those whose claim still stands. A claim is renewed when its post
could not begin within BEGIN_WITHIN, or its result could not be written for RENEW_AFTER. The claims of a worker that
dies run out, or its successor on the same machine gives them back (`webhooks.roster`); other workers then take over.

Any number of workers may drain at once. Nothing here waits for a single receiver: the claim itself bounds the attempts
that a webhook has under way (`AT_ONCE`).
"""

import json
import logging
import time
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from cryptography.fernet import InvalidToken
from django.db import DatabaseError, OperationalError, close_old_connections, connection

from codservice import postgresql
from webhooks import queue, retries, secrets
from webhooks.posts import NO_SECRET, UNRECORDED, Outcome, Post

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=10)  # an attempt's deadline, the same again for its result, and some more
PUT_OFF_FOR = timedelta(hours=1)  # how long deliveries that cannot be written are put off
RENEW_AFTER = 4.0  # seconds: no attempt takes so long, so that only claims that cannot be settled are renewed
BEGIN_WITHIN = 0.4  # seconds from a claim to the start of its post; a deletion waits no longer (`registry`)
AT_ONCE = 50  # attempts under way to one webhook, over all workers
AT_ONCE_FAILING = 5  # the same while its last attempt failed


# --- Claim -------------------------------------------------------------------------------------------------------

CLAIMING = 0x636C61696D  # the advisory lock that is held while claiming
HELD_OFF_FOR = "3s"  # how long others may keep workers waiting without a word: their process may be gone

# From each webhook, as many deliveries of both lanes as it has room for. Of these, as many as the worker has room for,
# beginning with the webhooks that have least under way, so that slow receivers with much to take leave room for others.
# With many webhooks, fewer of each are looked at: together about four times the worker's room. So a webhook with little
# due is not behind the long backlogs of others, and the cost of a claim does not grow with what it leaves. It does grow
# with what was settled and not vacuumed since, as while a long transaction (`pg_dump`) holds vacuum back.
_CLAIM = f"""{queue.HEADS}, busy AS (
    -- How many deliveries each webhook has under way.
    SELECT webhook_id, count(*) AS n FROM {queue.UNDER_WAY} GROUP BY webhook_id
), room AS MATERIALIZED (
    -- The webhooks with something due, and how many more of their deliveries may be under way (free).
    SELECT w.id, w.is_failing,
        CASE WHEN w.is_failing THEN %(at_once_failing)s ELSE %(at_once)s END - COALESCE(busy.n, 0) AS free
    FROM webhooks_webhook w LEFT JOIN busy ON busy.webhook_id = w.id
    WHERE w.id IN (SELECT webhook_id FROM heads WHERE due_at <= now()) AND w.deleted_at IS NULL AND w.is_active
), shares AS (
    -- Those with room and something unclaimed, and how many deliveries of each are looked at (share).
    SELECT room.id, is_failing, free,
        LEAST(free, GREATEST(4 * %(limit)s / count(*) OVER (PARTITION BY is_failing), 1)) AS share
    FROM room CROSS JOIN LATERAL ({queue.unclaimed("room.id", most="1")} LIMIT 1) AS d WHERE free > 0
), candidates AS (
    -- Their oldest deliveries: up to the share from each lane.
    SELECT d.*, s.id AS webhook_id, s.is_failing, s.free, s.share
    FROM shares s CROSS JOIN LATERAL ({queue.unclaimed("s.id", most="s.share")}) AS d
), of_webhook AS (
    -- n: a delivery's place among those of its webhook. With `others_first` the oldest comes first, whatever its lane.
    SELECT *, row_number() OVER (
        PARTITION BY webhook_id ORDER BY NOT %(others_first)s AND lane = 2, next_attempt_at
    ) AS n FROM candidates
), in_turn AS (
    -- turn: its place among all deliveries to failing webhooks, or to the others. n - free is least where most is free,
    -- so webhooks with little under way come first.
    SELECT *, row_number() OVER (
        PARTITION BY is_failing ORDER BY NOT %(others_first)s AND lane = 2, n - free, next_attempt_at
    ) AS turn FROM of_webhook WHERE n <= share
), chosen AS (
    -- First attempts before retries. Within each lane, deliveries to failing webhooks come last. With `others_first`:
    -- those to failing webhooks, retries, first attempts.
    SELECT id FROM in_turn WHERE turn <= %(limit_failing)s OR NOT is_failing
    ORDER BY %(others_first)s AND NOT is_failing, (lane = 1) = %(others_first)s, is_failing, turn LIMIT %(limit)s
), due AS (
    -- Locked and checked again: a worker whose claim has run out may be settling the delivery after all.
    SELECT d.id, d.webhook_id FROM webhooks_delivery d
    WHERE d.id = ANY(ARRAY(SELECT id FROM chosen)) AND d.status = 'pending' AND d.next_attempt_at <= now()
    FOR UPDATE SKIP LOCKED
), claimed AS (
    INSERT INTO webhooks_claim (delivery_id, webhook_id, token, until)
    SELECT id, webhook_id, %(token)s, clock_timestamp() + %(lease)s FROM due
    ON CONFLICT (delivery_id) DO UPDATE SET token = excluded.token, until = excluded.until
    WHERE webhooks_claim.until <= now()
    RETURNING delivery_id
)
SELECT d.id, e.id, w.id::text, d.account_id::text, w.url, e.kind, e.body, e.request_id, d.attempt_count, w.secret,
    CASE WHEN w.previous_secret_until > now() THEN w.previous_secret END, a.live_id IS NOT NULL AS is_test,
    w.is_failing, EXTRACT(EPOCH FROM clock_timestamp())::float AS now
FROM webhooks_delivery d
JOIN webhooks_webhook w ON w.id = d.webhook_id
JOIN webhooks_event e ON e.id = d.event_id
JOIN accounts_account a ON a.id = d.account_id
WHERE d.id = ANY(ARRAY(SELECT delivery_id FROM claimed))
ORDER BY d.next_attempt_at
"""  # noqa: S608  (of our own text)


def claim(token: UUID, limit: int, *, limit_failing: int, asked_at: float, others_first: bool = False) -> list[Post]:
    """Claim up to `limit` due deliveries for the worker that `token` names, which asked for them at `asked_at`.

    First attempts come before retries; webhooks take turns, each with its oldest first. Among first attempts and among
    retries, deliveries to webhooks whose last attempt failed come last; of these it claims at most `limit_failing`.
    With `others_first`, those to webhooks that fail come first, then retries, then first attempts; each webhook's
    oldest delivery is taken first, and of those that fail one with least under way, so that each is the first one day.

    Workers claim one at a time: snapshots that do not show each other's claims would let two fill the same webhook.
    Lock and claim go in one pipeline, which is one transaction, so that a stalled worker cannot hold the lock.
    """
    begin_by = asked_at + BEGIN_WITHIN  # from before the claim, so that the database's clock is not needed
    close_old_connections()
    parameters: dict[str, Any] = {
        "token": token,
        "lease": LEASE,
        "limit": limit,
        "limit_failing": limit_failing,
        "others_first": others_first,
        "at_once": AT_ONCE,
        "at_once_failing": AT_ONCE_FAILING,
    }
    with connection.cursor() as cursor, connection.wrap_database_errors:
        with connection.connection.pipeline():
            connection.connection.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIMING])
            cursor.execute(_CLAIM, parameters)
        # Only now: inside the pipeline this would wait for the rows before the commit is sent.
        rows = cursor.fetchall()
    here = time.monotonic()
    return [
        Post(
            delivery_id=id_,
            event_id=event_id,
            webhook_id=webhook,
            account_id=account,
            url=url,
            event=kind,
            body=body.encode(),
            secrets=_readable(*both),
            attempt=tries + 1,
            request_id=request_id,
            is_test=is_test,
            is_failing=is_failing,
            begin_by=begin_by,
            offset=now - here,
        )
        for id_, event_id, webhook, account, url, kind, body, request_id, tries, *both, is_test, is_failing, now in rows
    ]


def hold_off_claims() -> None:
    """Let nobody claim until the caller's transaction ends. Claims that had begun are committed when this returns.

    For transactions that make deliveries unclaimable: every later claim sees that. PostgreSQL ends the session if the
    caller then says nothing for HELD_OFF_FOR, since nobody's deliveries are sent meanwhile.
    """
    postgresql.execute(
        "SELECT set_config('idle_in_transaction_session_timeout', %s, true), pg_advisory_xact_lock(%s)",
        [HELD_OFF_FOR, CLAIMING],
    )


def _readable(newest: bytes, previous: bytes | None) -> list[str]:
    """Return the secrets to sign with, or none (a failed attempt) when we have no key that decrypts the newest."""
    try:
        found = [secrets.decrypt(bytes(newest))]
    except (InvalidToken, ValueError):
        return []
    if previous is not None:
        with suppress(InvalidToken, ValueError):
            found.append(secrets.decrypt(bytes(previous)))
    return found


# The webhook's row is locked while its claims are renewed. A deletion or a change of its address or secret either waits
# and then sees the fresh claims, or holds the row already, and its claims are then left alone. So are those of a
# webhook that is held for another reason, as by results that are being written. This waits for no lock, since settling
# and taking over lock claims too.
_RENEW = """
WITH webhook AS MATERIALIZED (
    SELECT id, url, secret, CASE WHEN previous_secret_until > now() THEN previous_secret END AS previous_secret
    FROM webhooks_webhook
    WHERE id = ANY(ARRAY(SELECT webhook_id FROM webhooks_claim WHERE delivery_id = ANY(%(ids)s) AND token = %(token)s))
      AND deleted_at IS NULL AND is_active
    ORDER BY id FOR SHARE SKIP LOCKED
), ours AS MATERIALIZED (
    SELECT delivery_id FROM webhooks_claim
    WHERE delivery_id = ANY(%(ids)s) AND token = %(token)s AND webhook_id IN (SELECT id FROM webhook)
    FOR UPDATE SKIP LOCKED
)
UPDATE webhooks_claim c SET until = clock_timestamp() + %(lease)s
FROM ours, webhook WHERE c.delivery_id = ours.delivery_id AND webhook.id = c.webhook_id
RETURNING c.delivery_id, webhook.url, webhook.secret, webhook.previous_secret
"""


class Renewed(NamedTuple):
    """When a post has to begin at the latest, its address and the secrets that sign it, as in `Post`."""

    begin_by: float
    url: str
    secrets: list[str]


def renew(token: UUID, delivery_ids: Sequence[UUID]) -> dict[UUID, Renewed]:
    """Renew the leases of these claims of `token`, and return those that still stand.

    Deliveries that another worker has taken over, or whose webhook is deleted, off or just being written, are not among
    them.
    """
    close_old_connections()
    begin_by = time.monotonic() + BEGIN_WITHIN
    renewed = postgresql.rows(_RENEW, {"token": token, "ids": list(delivery_ids), "lease": LEASE})
    return {id_: Renewed(begin_by, url, _readable(*both)) for id_, url, *both in renewed}


_RELEASE = """
DELETE FROM webhooks_claim WHERE delivery_id = ANY(ARRAY(
    SELECT delivery_id FROM webhooks_claim
    WHERE token = ANY(%(tokens)s) AND (%(ids)s::uuid[] IS NULL OR delivery_id = ANY(%(ids)s)) FOR UPDATE SKIP LOCKED))
"""


def release(token: UUID, delivery_ids: Sequence[UUID]) -> None:
    """Give back deliveries that `token` has claimed and not sent, so that others can take them at once."""
    close_old_connections()
    postgresql.execute(_RELEASE, {"tokens": [token], "ids": list(delivery_ids)})


def release_all(tokens: Sequence[UUID]) -> int:
    """Give back all claims of dead workers and return how many. Some of the deliveries may have been sent already."""
    close_old_connections()
    return postgresql.execute(_RELEASE, {"tokens": list(tokens), "ids": None})


_LATEST = f"clock_timestamp() + CASE WHEN token = '{queue.NOBODY}' THEN %(put_off)s ELSE %(lease)s END"
_SHORTEN_CLAIMS = f"""
UPDATE webhooks_claim SET until = {_LATEST} WHERE delivery_id = ANY(ARRAY(
    SELECT delivery_id FROM webhooks_claim WHERE until > {_LATEST} FOR UPDATE SKIP LOCKED))
"""  # noqa: S608  (of our own text)


def _bring_forward(lane: queue.Lane) -> str:
    """Return the statement for a lane. In its index, such late deliveries are the last of their webhook."""
    return f"""{queue.HEADS}
UPDATE webhooks_delivery SET next_attempt_at = now() + %(longest_wait)s WHERE id = ANY(ARRAY(
    SELECT late.id FROM {lane.name} h CROSS JOIN LATERAL (
        SELECT id FROM webhooks_delivery
        WHERE webhook_id = h.webhook_id AND {lane.condition}
            AND next_attempt_at > now() + %(longest_wait)s + %(some_more)s
        FOR UPDATE SKIP LOCKED) AS late))
"""  # noqa: S608  (of our own text)


def shorten_claims() -> int:
    """Shorten claims and bring deliveries forward that would wait too long because the database's clock was set back.

    Returns how many. Each such claim now runs out after its usual time from now: workers that are still at work renew
    or settle theirs. A first attempt becomes due now, and a retry after the longest wait, so that none is too early.
    """
    count = postgresql.execute(_SHORTEN_CLAIMS, {"lease": LEASE, "put_off": PUT_OFF_FOR})
    for lane in queue.LANES:
        count += postgresql.execute(_bring_forward(lane), {"longest_wait": lane.longest_wait, "some_more": LEASE})
    return count


# --- Settle ------------------------------------------------------------------------------------------------------

# Deliveries are locked first, by key, and then their claims, in the order of `_CLAIM`. So a worker whose claim has run
# out either settles late, or waits for the worker that takes it over and finds that the claim is no longer its own. A
# delivery that was dropped while its attempt was under way is not tried again, but the attempt counts. Whether more is
# due for these webhooks is read from their lanes: a claim that finds nothing costs as much as one that finds something.
_SETTLE = f"""
WITH result AS (
    SELECT * FROM json_to_recordset(%(results)s::json) AS r(
        delivery_id uuid, url text, acknowledged boolean, milliseconds int, status_code int, failure text,
        response text)
), locked AS (
    SELECT d.id, d.account_id, d.status, d.attempt_count, d.retries_left FROM webhooks_delivery d
    WHERE d.id IN (SELECT delivery_id FROM result) ORDER BY d.id FOR UPDATE
), ours AS (
    DELETE FROM webhooks_claim c USING locked WHERE c.delivery_id = locked.id AND c.token = %(token)s
    RETURNING locked.*, c.webhook_id, (%(delays)s::interval[])[locked.retries_left + 1] AS delay
), noted AS (
    INSERT INTO webhooks_attempt
        (account_id, delivery_id, number, ended_at, milliseconds, status_code, failure, response)
    SELECT ours.account_id, ours.id, ours.attempt_count + 1, now(), r.milliseconds, r.status_code, r.failure,
        decode(r.response, 'base64')
    FROM ours JOIN result r ON r.delivery_id = ours.id
), moved AS (
    UPDATE webhooks_delivery d SET
        attempt_count = d.attempt_count + 1,
        retries_left = GREATEST(d.retries_left - 1, 0),
        status = CASE WHEN r.acknowledged THEN 'delivered' WHEN d.status = 'dropped' THEN 'dropped'
            WHEN ours.delay IS NULL THEN 'failed' ELSE 'pending' END,
        finished_at = CASE WHEN r.acknowledged OR d.status = 'dropped' OR ours.delay IS NULL THEN now() END,
        next_attempt_at = CASE WHEN NOT r.acknowledged AND d.status = 'pending' THEN now() + ours.delay END
    FROM ours JOIN result r ON r.delivery_id = ours.id
    WHERE d.id = ours.id AND d.status IN ('pending', 'dropped')
), health AS (
    -- How each address answered. A secret that we cannot read says nothing about it (NULL), nor does an attempt from
    -- before the webhook was turned off about how it is when it is on again.
    SELECT ours.webhook_id, r.url, NOT bool_or(r.acknowledged)
        FILTER (WHERE r.failure <> '{NO_SECRET}' AND ours.status <> 'dropped') AS is_failing
    FROM ours JOIN result r ON r.delivery_id = ours.id GROUP BY ours.webhook_id, r.url
), marked AS (
    -- Elsewhere webhooks are locked before deliveries, so this must not wait for one: it skips what others hold. A
    -- mark that is skipped may stay wrong until the webhook's next attempt ends. A webhook that is off is not marked,
    -- nor one that has moved by what its former address answered.
    UPDATE webhooks_webhook w SET
        is_failing = changed.is_failing, failing_since = CASE WHEN changed.is_failing THEN now() END
    FROM (
        SELECT w.id, health.is_failing FROM webhooks_webhook w JOIN health ON health.webhook_id = w.id
        WHERE w.url = health.url AND w.is_failing <> health.is_failing AND w.is_active
        FOR NO KEY UPDATE OF w SKIP LOCKED
    ) AS changed WHERE w.id = changed.id
)
SELECT EXISTS (
    SELECT FROM health CROSS JOIN LATERAL ({queue.unclaimed("health.webhook_id", most="1")}) AS more
)
"""  # noqa: S608  (of our own text)


# For a delivery whose attempts cannot be written to the log: it ends with this result, since another could not be
# written either. It locks as `_SETTLE` does, so that it does not end what another worker is just taking over.
_END = """
WITH result AS (
    SELECT * FROM json_to_recordset(%(results)s::json) AS r(delivery_id uuid, acknowledged boolean)
), locked AS (
    SELECT id FROM webhooks_delivery WHERE id IN (SELECT delivery_id FROM result) ORDER BY id FOR UPDATE
), ours AS (
    DELETE FROM webhooks_claim c USING locked WHERE c.delivery_id = locked.id AND c.token = %(token)s
    RETURNING c.delivery_id
)
UPDATE webhooks_delivery d SET
    status = CASE WHEN r.acknowledged THEN 'delivered' WHEN d.status = 'dropped' THEN 'dropped' ELSE 'failed' END,
    finished_at = now(), next_attempt_at = NULL
FROM ours JOIN result r ON r.delivery_id = ours.delivery_id
WHERE d.id = ours.delivery_id AND d.status IN ('pending', 'dropped')
"""
# For a delivery that cannot be written at all: a long claim of NOBODY, so that it is not sent again and again.
_PUT_OFF = f"""
UPDATE webhooks_claim SET until = clock_timestamp() + %(put_off)s, token = '{queue.NOBODY}'
WHERE token = %(token)s
  AND delivery_id IN (SELECT delivery_id FROM json_to_recordset(%(results)s::json) AS r(delivery_id uuid))
"""  # noqa: S608  (of our own text)


def settle(token: UUID, outcomes: Sequence[Outcome]) -> bool:
    """Write the results of attempts. An attempt whose claim another worker has by now does not count.

    Returns whether their webhooks have (or may have) more due, for which there may have been no room.

    Raises DatabaseError while the database is away; what counted before that does not count again. A result that cannot
    be written does not stop the others: it is noted as UNRECORDED, or its delivery is ended without a note or put off.
    """
    close_old_connections()
    results = [
        {
            "delivery_id": str(outcome.post.delivery_id),
            "url": outcome.post.url,
            "acknowledged": not outcome.failure,
            "milliseconds": outcome.milliseconds,
            "status_code": outcome.status_code,
            "failure": outcome.failure,
            "response": b64encode(outcome.response).decode(),
        }
        for outcome in outcomes
    ]
    try:
        return _write(_SETTLE, token, results)
    except OperationalError:  # not caused by a result: the database is away, or read-only after a failover
        raise
    except DatabaseError:
        logger.exception("%s results cannot be written together, and are written one by one", len(results))
    for result in results:
        _settle_alone(token, result)
    return True


def _settle_alone(token: UUID, result: dict[str, Any]) -> None:
    bare = result | {"failure": UNRECORDED, "milliseconds": 0, "status_code": None, "response": ""}
    for statement, written in ((_SETTLE, result), (_SETTLE, bare), (_END, result), (_PUT_OFF, result)):
        try:
            _write(statement, token, [written])
            return
        except OperationalError:
            raise
        except DatabaseError:
            logger.exception("the result of delivery %s cannot be written", result["delivery_id"])


def _write(statement: str, token: UUID, results: Sequence[dict[str, Any]]) -> bool:
    with connection.cursor() as cursor:
        values: dict[str, Any] = {"results": json.dumps(results), "delays": retries.DELAYS, "put_off": PUT_OFF_FOR}
        cursor.execute(statement, values | {"token": token})
        return bool(cursor.description and cursor.fetchone()[0])

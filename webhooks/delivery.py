"""The queue of deliveries: claim what is due, settle how it went. `webhooks.engine` sends what is claimed.

Rows in PostgreSQL are the queue and the truth, its clock is the only one that due times are compared with. A claim
takes a batch in one short statement and leaves it to this worker for LEASE; the posts go out in a sliding window,
outside any transaction; results are settled in bulk by another short statement, which counts only those whose claim
still stands. A claim is renewed when its post could not begin within BEGIN_WITHIN, or its result not be written for
RENEW_AFTER. A worker that dies leaves claims that run out, or that its successor on the same machine gives back
(`webhooks.roster`); whoever comes next takes them over.

Any number of workers may drain at once. Nothing here waits for one receiver: `AT_ONCE` bounds what a webhook has
under way, in the claim itself.
"""

import json
import logging
import time
from base64 import b64encode
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from cryptography.fernet import InvalidToken
from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections, connection

from webhooks import queue, retries, secrets
from webhooks.posts import NO_SECRET, UNRECORDED, Outcome, Post

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=10)  # an attempt's deadline, and as long again for its result, and some more
PUT_OFF = timedelta(hours=1)  # of what cannot be written
RENEW_AFTER = 4.0  # seconds: no attempt takes so long, so that only what cannot be settled is renewed
BEGIN_WITHIN = 0.4  # seconds after its claim that a post begins; a deletion waits for no longer (`registry`)
AT_ONCE = 50  # attempts of one webhook under way, over all workers
AT_ONCE_FAILING = 5  # the same while its last attempt failed


# --- Claim -------------------------------------------------------------------------------------------------------

CLAIMING = 0x636C61696D  # the advisory lock of whoever claims

# Of each webhook as much as it has room for, from either lane; of these as much as the worker has room for, beginning
# with webhooks that have least under way: receivers that take long, and have much to take, leave room for others.
# Of many webhooks less of each is looked at, some four times what the worker has room for of all: who has little due is
# then not behind all that others have had for longer, and a claim does not cost what it leaves.
_CLAIM = f"""{queue.HEADS}, busy AS (
    -- How much each webhook has under way.
    SELECT webhook_id, count(*) AS n FROM {queue.UNDER_WAY} GROUP BY webhook_id
), room AS MATERIALIZED (
    -- The webhooks with something due, and how much more of theirs may be under way (free).
    SELECT w.id, w.is_failing,
        CASE WHEN w.is_failing THEN %(at_once_failing)s ELSE %(at_once)s END - COALESCE(busy.n, 0) AS free
    FROM webhooks_webhook w LEFT JOIN busy ON busy.webhook_id = w.id
    WHERE w.id IN (SELECT webhook_id FROM heads WHERE due_at <= now()) AND w.deleted_at IS NULL AND w.is_active
), shares AS (
    -- Those of them with room and something that nobody has claimed; how much of each is looked at (share).
    SELECT room.id, is_failing, free,
        LEAST(free, GREATEST(4 * %(limit)s / count(*) OVER (PARTITION BY is_failing), 1)) AS share
    FROM room CROSS JOIN LATERAL ({queue.unclaimed("room.id", most="1")} LIMIT 1) AS d WHERE free > 0
), candidates AS (
    -- Their oldest, of each lane as many.
    SELECT d.*, s.id AS webhook_id, s.is_failing, s.free, s.share
    FROM shares s CROSS JOIN LATERAL ({queue.unclaimed("s.id", most="s.share")}) AS d
), of_webhook AS (
    -- n: its place among its webhook's.
    SELECT *, row_number() OVER (PARTITION BY webhook_id ORDER BY lane, next_attempt_at) AS n FROM candidates
), in_turn AS (
    -- turn: its place among all of webhooks that fail, or of those that do not. n - free is least where most is free:
    -- who has little under way comes first.
    SELECT *, row_number() OVER (PARTITION BY is_failing ORDER BY lane, n - free, next_attempt_at) AS turn
    FROM of_webhook WHERE n <= share
), chosen AS (
    -- First attempts before retries; of either, those of webhooks that fail come last.
    SELECT id FROM in_turn WHERE turn <= %(limit_failing)s OR NOT is_failing
    ORDER BY lane, is_failing, turn LIMIT %(limit)s
), due AS (
    -- Locked and looked at again: a worker whose claim has run out may be settling it after all.
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
SELECT d.id, e.id, w.url, e.kind, e.body, e.request_id, d.attempt_count, w.secret,
    CASE WHEN w.previous_secret_until > now() THEN w.previous_secret END, a.live_id IS NOT NULL AS is_test,
    EXTRACT(EPOCH FROM clock_timestamp())::float AS now
FROM webhooks_delivery d
JOIN webhooks_webhook w ON w.id = d.webhook_id
JOIN webhooks_event e ON e.id = d.event_id
JOIN accounts_account a ON a.id = d.account_id
WHERE d.id = ANY(ARRAY(SELECT delivery_id FROM claimed))
ORDER BY d.next_attempt_at
"""  # noqa: S608  (of our own text)


def claim(token: UUID, limit: int, limit_failing: int | None = None) -> list[Post]:
    """Take up to `limit` due deliveries for the worker that `token` names: first attempts, then retries; of each
    webhook by age, of all in turn.

    Those to webhooks whose last attempt failed come after the others and are at most `limit_failing`. One claims at a
    time: a snapshot that does not show the claims of another would let both fill the same webhook. Lock and claim
    travel in one pipeline, which is one transaction without a pause that a stalled worker could hold the lock in.
    """
    close_old_connections()
    begin_by = time.monotonic() + BEGIN_WITHIN  # from before the claim, so that the database's clock need not be asked
    limits = {
        "limit": limit,
        "limit_failing": limit if limit_failing is None else limit_failing,
        "at_once": AT_ONCE,
        "at_once_failing": AT_ONCE_FAILING,
    }
    with connection.cursor() as cursor, connection.wrap_database_errors:
        with connection.connection.pipeline():
            connection.connection.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIMING])
            cursor.execute(_CLAIM, {"token": token, "lease": LEASE, **limits})  # type: ignore[dict-item]
        # Only now: to ask for rows inside of it would wait for them before the commit is sent.
        rows = cursor.fetchall()
    here = time.monotonic()
    return [
        Post(
            delivery_id=id_,
            event_id=event_id,
            url=url,
            event=kind,
            body=body.encode(),
            secrets=_readable(newest, previous),
            attempt=attempt_count + 1,
            request_id=request_id,
            is_test=is_test,
            begin_by=begin_by,
            offset=now - here,
        )
        for id_, event_id, url, kind, body, request_id, attempt_count, newest, previous, is_test, now in rows
    ]


def hold_off_claims() -> None:
    """Let nobody claim until the caller's transaction ends. What was being claimed is committed when this returns.

    For a transaction that makes deliveries unclaimable: whoever claims after it sees that.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIMING])


def _readable(newest: bytes, previous: bytes | None) -> list[str]:
    """The secrets to sign with; none (a failed attempt) when the newest is under a key that we do not have."""
    found = []
    for encrypted in (newest, previous):
        if encrypted is not None:
            try:
                found.append(secrets.decrypt(bytes(encrypted)))
            except (InvalidToken, ValueError):
                if encrypted is newest:
                    return []
    return found


# A webhook is held while its claims are renewed: a deletion, a new address or secret of it either waits for that and
# then sees fresh claims, or has the webhook, whose claims are then left alone. Nothing is waited for: who settles or
# takes over locks claims too.
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
    """By when a post has to begin, where it goes then, and the secrets that sign it, as in `Post`."""

    begin_by: float
    url: str
    secrets: list[str]


def renew(token: UUID, delivery_ids: Sequence[UUID]) -> dict[UUID, Renewed]:
    """Begin the leases of what `token` has claimed anew: which of it still is its own.

    What somebody else has taken over, and what is for a webhook that is deleted or off, is not among them.
    """
    close_old_connections()
    begin_by = time.monotonic() + BEGIN_WITHIN
    with connection.cursor() as cursor:
        cursor.execute(_RENEW, {"token": token, "ids": list(delivery_ids), "lease": LEASE})  # type: ignore[dict-item]
        return {id_: Renewed(begin_by, url, _readable(*both)) for id_, url, *both in cursor.fetchall()}


_RELEASE = """
DELETE FROM webhooks_claim WHERE delivery_id = ANY(ARRAY(
    SELECT delivery_id FROM webhooks_claim
    WHERE token = ANY(%(tokens)s) AND (%(ids)s::uuid[] IS NULL OR delivery_id = ANY(%(ids)s)) FOR UPDATE SKIP LOCKED))
"""


def release(token: UUID, delivery_ids: Sequence[UUID]) -> None:
    """Give back what `token` has claimed and not sent, for others to take at once."""
    close_old_connections()
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, {"tokens": [token], "ids": list(delivery_ids)})


def release_all(tokens: Sequence[UUID]) -> int:
    """Give back all that workers have claimed who are dead; how much. Of it some may have been sent already."""
    close_old_connections()
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, {"tokens": list(tokens), "ids": None})
        return cursor.rowcount


_LATEST = f"clock_timestamp() + CASE WHEN token = '{queue.NOBODY}' THEN %(put_off)s ELSE %(lease)s END"
_SHORTEN_CLAIMS = f"""
UPDATE webhooks_claim SET until = {_LATEST} WHERE delivery_id = ANY(ARRAY(
    SELECT delivery_id FROM webhooks_claim WHERE until > {_LATEST} FOR UPDATE SKIP LOCKED))
"""  # noqa: S608  (of our own text)
# By their lanes' indexes, in which so late a delivery comes last of its webhook's. A first attempt is due when it is
# written, or after the others of a recovery.
_TOO_LATE = """
    SELECT late.id FROM {name} h CROSS JOIN LATERAL (
        SELECT id FROM webhooks_delivery
        WHERE webhook_id = h.webhook_id AND {is_in_it} AND next_attempt_at > now() + %(lease)s + %({name})s
        FOR UPDATE SKIP LOCKED) AS late
"""
_BRING_FORWARD = f"""{queue.HEADS}
UPDATE webhooks_delivery
SET next_attempt_at = now() + CASE attempt_count WHEN 0 THEN %(first_attempts)s ELSE %(retries)s END
WHERE id = ANY(ARRAY({queue.of_each_lane(_TOO_LATE)}))
"""  # noqa: S608  (of our own text)
_WAITS = {"first_attempts": timedelta(0), "retries": max(retries.SCHEDULE)}  # at most, by lanes


def shorten_waits() -> int:
    """Shorten claims that were made before the database's clock was set back, and bring deliveries forward that were
    to be sent by the clock before: they would wait too long. How many.

    Each claim now runs out after its usual time from now: workers that are still at work renew or settle theirs. A
    first attempt is due, and a retry after the longest of waits: never too early.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SHORTEN_CLAIMS, {"lease": LEASE, "put_off": PUT_OFF})  # type: ignore[dict-item]
        claims = cursor.rowcount
        cursor.execute(_BRING_FORWARD, {"lease": LEASE, **_WAITS})  # type: ignore[dict-item]
        return claims + cursor.rowcount


# --- Settle ------------------------------------------------------------------------------------------------------

# Deliveries are locked first, by key, and then their claims, in the order of `_CLAIM`: a worker whose claim has run out
# settles late, or waits for who takes it over and finds that it is no longer its own. What was dropped while its
# attempt was under way is not tried again, but the attempt counts. That more is due of these webhooks is a look along
# their lanes, where a claim for nothing would cost as much as one for something.
_SETTLE = f"""
WITH result AS (
    SELECT * FROM json_to_recordset(%(results)s::json) AS r(
        delivery_id uuid, acknowledged boolean, milliseconds int, status_code int, failure text, response text)
), locked AS (
    SELECT d.id, d.account_id, d.attempt_count, d.retries_left FROM webhooks_delivery d
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
    -- A secret that we cannot read says nothing of its receiver.
    SELECT ours.webhook_id, NOT bool_or(r.acknowledged) FILTER (WHERE r.failure <> '{NO_SECRET}') AS is_failing
    FROM ours JOIN result r ON r.delivery_id = ours.id GROUP BY ours.webhook_id
), marked AS (
    -- Webhooks are locked before deliveries elsewhere: none is waited for here, what somebody else holds is let be. One
    -- that is off fails no more: what was under way says nothing of how it is when it is turned on.
    UPDATE webhooks_webhook w SET
        is_failing = changed.is_failing, failing_since = CASE WHEN changed.is_failing THEN now() END
    FROM (
        SELECT w.id, health.is_failing FROM webhooks_webhook w JOIN health ON health.webhook_id = w.id
        WHERE w.is_failing <> health.is_failing AND w.is_active FOR NO KEY UPDATE OF w SKIP LOCKED
    ) AS changed WHERE w.id = changed.id
)
SELECT (SELECT count(*) FROM ours), EXISTS (
    SELECT FROM health CROSS JOIN LATERAL ({queue.unclaimed("health.webhook_id", most="1")}) AS more
)
"""  # noqa: S608  (of our own text)


# For a result that cannot be written as a row of the log.
_END = """
WITH result AS (
    SELECT * FROM json_to_recordset(%(results)s::json) AS r(delivery_id uuid, acknowledged boolean)
), moved AS (
    UPDATE webhooks_delivery d SET
        status = CASE WHEN r.acknowledged THEN 'delivered' WHEN d.status = 'dropped' THEN 'dropped' ELSE 'failed' END,
        finished_at = now(), next_attempt_at = NULL
    FROM result r, webhooks_claim c
    WHERE d.id = r.delivery_id AND d.status IN ('pending', 'dropped') AND c.delivery_id = d.id AND c.token = %(token)s
    RETURNING d.id
)
DELETE FROM webhooks_claim WHERE delivery_id IN (SELECT id FROM moved) AND token = %(token)s
"""
# For a delivery that cannot be written at all: a long claim of nobody's, so that it is not sent again and again.
_PUT_OFF = f"""
UPDATE webhooks_claim SET until = clock_timestamp() + %(put_off)s, token = '{queue.NOBODY}'
WHERE token = %(token)s
  AND delivery_id IN (SELECT delivery_id FROM json_to_recordset(%(results)s::json) AS r(delivery_id uuid))
"""  # noqa: S608  (of our own text)


# No fault of what was to be written: nobody answers, or nothing is written after a failover (`codservice.postgresql`).
_AWAY = (OperationalError, InterfaceError)


class Settled(NamedTuple):
    """How many attempts have counted; whether more is due of their webhooks, which may have had no room for it."""

    counted: int
    is_more: bool


def settle(token: UUID, outcomes: Sequence[Outcome]) -> Settled:
    """Write how attempts went. One whose claim somebody else has by now does not count.

    Raises DatabaseError while the database is away; what did count then will not count again. One result that cannot be
    written keeps no other from being written: it is noted as UNRECORDED, or its delivery is ended without a note.
    """
    close_old_connections()
    results = [
        {
            "delivery_id": str(outcome.post.delivery_id),
            "acknowledged": not outcome.failure,
            "milliseconds": outcome.milliseconds,
            "status_code": outcome.status_code,
            "failure": outcome.failure,
            "response": b64encode(outcome.response).decode(),
        }
        for outcome in outcomes
    ]
    try:
        return Settled(*_write(_SETTLE, token, results))
    except _AWAY:
        raise
    except DatabaseError:
        logger.exception("%s results cannot be settled together", len(results))
    return Settled(sum(_settle_alone(token, result) for result in results), is_more=True)


def _settle_alone(token: UUID, result: dict[str, Any]) -> int:
    bare = result | {"failure": UNRECORDED, "milliseconds": 0, "status_code": None, "response": ""}
    for statement, written in ((_SETTLE, result), (_SETTLE, bare), (_END, result), (_PUT_OFF, result)):
        try:
            return _write(statement, token, [written])[0]
        except _AWAY:
            raise
        except DatabaseError:
            logger.exception("the result of delivery %s cannot be written", result["delivery_id"])
    return 0


def _write(statement: str, token: UUID, results: Sequence[dict[str, Any]]) -> Any:
    with connection.cursor() as cursor:
        values: dict[str, Any] = {"results": json.dumps(results), "delays": retries.DELAYS, "put_off": PUT_OFF}
        cursor.execute(statement, values | {"token": token})
        return cursor.fetchone() if cursor.description else (cursor.rowcount,)

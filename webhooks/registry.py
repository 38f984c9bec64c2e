"""Register, change and delete the webhooks of an account, and rotate their secrets (docs/webhooks.md)."""

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from codservice import postgresql, stops
from codservice.accounts import security_log
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.errors import Invalid, Refused
from webhooks import delivery, queue, secrets
from webhooks.models import Webhook

logger = logging.getLogger(__name__)

MOST_WEBHOOKS = 20  # per account
OVERLAP = timedelta(hours=24)  # how long the previous secret signs too
# The longest time from a worker's claim to the start of its posts: it looks at its clock and then dials.
CLAIM_TO_POST = timedelta(seconds=delivery.BEGIN_WITHIN + 0.1)
DROP_SECONDS = 0.2  # how long a request drops deliveries; the rest is dropped after it
WORKER_SECONDS = 20.0  # how long a worker drops deliveries before it leaves the rest to the next round
_BATCH = 1000  # deliveries of a lane that one statement drops


class StillDropping(Refused):
    """The deliveries that were pending when the webhook was turned off are not all dropped yet.

    Turned on now, it would be sent the rest.
    """

    code, status = "unavailable", HTTPStatus.SERVICE_UNAVAILABLE
    message = gettext_lazy("What was waiting when it was turned off is still being dropped. Turn it on in a moment.")


class SecretChanged(Refused):
    """The secret that was to be replaced is no longer in use."""

    code = "secret_changed"
    message = gettext_lazy(
        "Its secret was already changed, by another click or by somebody else. No new one was created now."
    )


def register(
    account_id: UUID,
    *,
    url: str,
    events: Sequence[str],
    is_active: bool = True,
    description: str = "",
    once: bool = False,
) -> tuple[Webhook, str]:
    """Create a webhook for a URL from `receivers.normalise`. Returns it and its signing secret, to be shown only now.

    Raises Invalid when the account has MOST_WEBHOOKS already and, with `once`, when it already has a webhook to this
    URL for all of these events.
    """
    secret = secrets.make_secret()
    with transaction.atomic():
        Account.lock(account_id)
        if Webhook.of(account_id).count() >= MOST_WEBHOOKS:
            text = f"The account has {MOST_WEBHOOKS} webhooks, which is the maximum. Delete one first."
            raise Invalid({"url": [text]})
        if once and Webhook.of(account_id).filter(url=url, events__contains=events).exists():
            text = _(
                "You already have a webhook to this address for these events. You can create a new secret on its page."
            )
            raise Invalid({"url": [text]})
        webhook = Webhook.objects.create(
            account_id=account_id,
            url=url,
            description=description,
            events=list(events),
            is_active=is_active,
            secret=secrets.encrypt(secret),
            secret_hint=secrets.hint(secret),
        )
        note(Action.WEBHOOK_MADE, webhook)
    return webhook, secret


def change(account_id: UUID, webhook_id: UUID, changes: Mapping[str, Any]) -> Webhook:
    """Change the `url`, `events`, `is_active` and `description` that `changes` has; the secret stays.

    While a webhook is off, no deliveries are written for it; pending ones are dropped, as by `delete`. After this
    returns, no attempt begins to a webhook that is off or to an address that was replaced. Must not run inside a
    transaction.

    Raises Webhook.DoesNotExist, and StillDropping when a webhook is turned on that still has much to drop.
    """
    until = time.monotonic() + DROP_SECONDS
    if changes.get("is_active"):
        # Drop what turning it off left over before its row is locked, since publishing waits for that lock.
        _drop_pending(Webhook.of(account_id).only("id").get(id=webhook_id).id, until=until)
    with transaction.atomic(durable=True):
        webhook = Webhook.of(account_id).select_for_update().get(id=webhook_id)
        written = {name: value for name, value in changes.items() if value != getattr(webhook, name)}
        is_turned_off, is_moved = written.get("is_active") is False, "url" in written
        if is_turned_off or is_moved:
            delivery.hold_off_claims()  # before deliveries are locked, as `redaction` does
        if written.get("is_active"):
            _drop_pending(webhook_id, until=until)  # the rest
            if _has_pending(webhook_id):
                raise StillDropping
        # Earlier results say nothing about the webhook from now on. But a holder who was told that it fails is told
        # when a new address answers.
        if "is_active" in written or (is_moved and not webhook.is_alarmed):
            written |= {"is_failing": False, "failing_since": None, "is_alarmed": False}
        if written:
            for name, value in written.items():
                setattr(webhook, name, value)
            webhook.save(update_fields=list(written))
            note(Action.WEBHOOK_CHANGED, webhook)
    if is_turned_off:
        _end(webhook_id)
    elif is_moved:
        _wait_for_begun(webhook_id, since=time.monotonic())
    return webhook


def rotate_secret(account_id: UUID, webhook_id: UUID, *, replaces: str | None = None) -> tuple[Webhook, str]:
    """Create a new signing secret, used from now on and to be shown only now. For OVERLAP the previous one signs too.

    After this returns, no attempt begins that the new secret does not sign. Must not run inside a transaction.

    Raises Webhook.DoesNotExist, and SecretChanged when `replaces` is given and is not the hint of the current secret.
    """
    secret = secrets.make_secret()
    own = Webhook.of(account_id).filter(id=webhook_id)
    as_shown = own if replaces is None else own.filter(secret_hint=replaces)
    with transaction.atomic(durable=True):
        rotated = as_shown.update(
            previous_secret=F("secret"),
            previous_secret_until=Now() + OVERLAP,
            secret=secrets.encrypt(secret),
            secret_hint=secrets.hint(secret),
        )
        webhook = own.get()
        if not rotated:
            raise SecretChanged
        note(Action.WEBHOOK_ROTATED, webhook)
        delivery.hold_off_claims()
    _wait_for_begun(webhook_id, since=time.monotonic())
    return webhook, secret


def delete(account_id: UUID, webhook_id: UUID) -> None:
    """Delete a webhook and drop its pending deliveries. After this returns, no attempt to it begins.

    Must not run inside a transaction, since the deletion has to be committed before deliveries are dropped. When there
    are many, or the database goes away, the rest is left to `drop_left_over`; it counts as dropped from now on.

    Raises Webhook.DoesNotExist, and DatabaseError only if nothing was deleted.
    """
    with transaction.atomic(durable=True):
        # Waits for what is being published or resent to it, and does not hold up later publishing for long: deliveries
        # are dropped after the lock is released, since claims check `deleted_at` themselves. FOR UPDATE comes first:
        # an UPDATE alone, which changes no key, would not wait for those who hold FOR KEY SHARE.
        webhook = Webhook.of(account_id).select_for_update().get(id=webhook_id)
        Webhook.objects.filter(id=webhook.id).update(deleted_at=Now())
        note(Action.WEBHOOK_DELETED, webhook)
        delivery.hold_off_claims()
    _end(webhook_id)


def _end(webhook_id: UUID) -> None:
    """Drop pending deliveries of a webhook that was just deleted or turned off, for at most DROP_SECONDS.

    After this returns, no attempt to it begins.
    """
    ended_at = time.monotonic()
    try:
        _drop_pending(webhook_id, until=ended_at + DROP_SECONDS)
    except DatabaseError as error:
        logger.warning("the pending deliveries of webhook %s will be dropped later: %s", webhook_id, error)
    _wait_for_begun(webhook_id, since=ended_at)


def note(action: Action, webhook: Webhook) -> None:
    """Note the action in the security log with the webhook's host only: the rest of a URL may contain passwords."""
    host = urlsplit(webhook.url).hostname or ""
    security_log.note(action, target=host, target_id=webhook.id, account_id=webhook.account_id)


def drop_left_over() -> int:
    """Drop pending deliveries of webhooks that are deleted or off, batch by batch. Returns how many.

    No batch begins after WORKER_SECONDS, nor once the worker stops.
    """
    until = time.monotonic() + WORKER_SECONDS
    ended = [webhook_id for (webhook_id,) in postgresql.rows(_ENDED_AND_WAITING)]
    return sum(_drop_pending(webhook_id, until=until) for webhook_id in ended)


_ENDED_AND_WAITING = f"""{queue.HEADS}
SELECT id FROM webhooks_webhook
WHERE id IN (SELECT webhook_id FROM heads) AND (deleted_at IS NOT NULL OR NOT is_active)
"""  # noqa: S608  (of our own text)

_WAITING = ", ".join(
    f"""{lane.name} AS (
    SELECT id FROM webhooks_delivery WHERE webhook_id = (SELECT id FROM ended) AND {lane.condition}
    ORDER BY next_attempt_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED
)"""  # noqa: S608  (of our own text)
    for lane in queue.LANES
)
# The webhook's row is locked and checked again first: it may have been turned on, and what is written for it then must
# not be dropped. Locked deliveries are being settled; if they are still pending after that, they are dropped later.
_DROP = f"""
WITH ended AS MATERIALIZED (
    SELECT id FROM webhooks_webhook
    WHERE id = %(webhook_id)s AND (deleted_at IS NOT NULL OR NOT is_active) FOR KEY SHARE
), {_WAITING}
UPDATE webhooks_delivery SET status = 'dropped', next_attempt_at = NULL, finished_at = now()
WHERE id = ANY(ARRAY({queue.from_lanes("id")}))
"""  # noqa: S608  (of our own text)


def _drop_pending(webhook_id: UUID, *, until: float) -> int:
    """Drop pending deliveries of a webhook while it is deleted or off, until the time `until`. Returns how many."""
    count, dropped = 0, _BATCH
    while dropped >= _BATCH and time.monotonic() < until and not stops.stopping.is_set():
        dropped = postgresql.execute(_DROP, {"webhook_id": webhook_id, "batch": _BATCH})
        count += dropped
    return count


_PENDING = " UNION ALL ".join(
    f"""
(SELECT 1 FROM webhooks_delivery WHERE webhook_id = %(id)s AND {lane.condition} ORDER BY next_attempt_at LIMIT 1)"""  # noqa: S608  (our own)
    for lane in queue.LANES
)


def _has_pending(webhook_id: UUID) -> bool:
    return postgresql.row(_PENDING, {"id": webhook_id}) is not None


def _wait_for_begun(webhook_id: UUID, *, since: float) -> None:
    """Wait until all workers that claimed deliveries before a commit have begun their posts (most have ended).

    The commit was at `since`, and its transaction held off claims and renewals. So all have begun CLAIM_TO_POST later
    at the latest, even when the database cannot say so.
    """
    until = since + CLAIM_TO_POST.total_seconds()
    try:
        while time.monotonic() < until:
            # A claim that was made longer ago has begun its post: only the answer is still to come.
            (is_claimed,) = postgresql.row(
                "SELECT EXISTS (SELECT FROM webhooks_claim WHERE webhook_id = %s AND until > now() + %s)",
                [webhook_id, delivery.LEASE - CLAIM_TO_POST],
            )
            if not is_claimed:
                return
            time.sleep(0.01)
    except DatabaseError as error:
        logger.warning("waiting as long as attempts to webhook %s may need to begin: %s", webhook_id, error)
        time.sleep(max(until - time.monotonic(), 0.0))


def problem_with_secrets() -> str:
    """Describe what is wrong with the signing secrets, for `check_service`; empty when all can be read."""
    webhooks = Webhook.objects.filter(deleted_at=None).values_list("secret", flat=True)
    count = sum(not secrets.is_readable(bytes(secret)) for secret in webhooks.iterator(chunk_size=500))
    if not count:
        return ""
    return (
        f"some cannot be read (unreadable: {count}), so nothing is sent to their webhooks. Put the key that encrypted"
        " them back into ENCRYPTION_KEYS (it is in your copy of the secrets), and restart."
    )

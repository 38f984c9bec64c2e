"""The webhooks of an account: registered, changed, given new secrets, deleted (docs/webhooks.md)."""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from codservice.accounts import security_log
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.errors import Invalid, Refused
from webhooks import delivery, queue, secrets
from webhooks.models import Webhook

logger = logging.getLogger(__name__)

MOST_WEBHOOKS = 20  # of one account
OVERLAP = timedelta(hours=24)  # for which the secret before the newest signs too
# What a worker takes, at most, from its claim to having begun the posts: it looks at its clock and then dials.
CLAIM_TO_POST = timedelta(seconds=delivery.BEGIN_WITHIN + 0.1)
DROP_SECONDS = 0.2  # of an answer; what it cannot drop in that time is dropped after it
_BATCH = 1000  # deliveries of a lane that a statement drops


class StillDropping(Refused):
    """What the webhook had waiting when it was turned off is not dropped yet: turned on now, it would be sent."""

    code, status = "unavailable", HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self) -> None:
        super().__init__(_("What was waiting when it was turned off is still being dropped. Turn it on in a moment."))


class SecretChanged(Refused):
    """The secret that was to be replaced is not in use any more."""

    code = "secret_changed"

    def __init__(self) -> None:
        super().__init__(
            _("Its secret was already changed, by another click or by somebody else. No new one was created now.")
        )


def register(
    account_id: UUID, *, url: str, events: Sequence[str], description: str = "", once: bool = False
) -> tuple[Webhook, str]:
    """A new webhook for a URL from `receivers.normalise`, and its signing secret, to be shown now or never.

    Raises Invalid when the account has MOST_WEBHOOKS already; `once` also when one to this URL is told of all these
    events.
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
            secret=secrets.encrypt(secret),
            secret_hint=secrets.hint(secret),
        )
        note(Action.WEBHOOK_MADE, webhook)
    return webhook, secret


def change(account_id: UUID, webhook_id: UUID, changes: Mapping[str, Any]) -> Webhook:
    """Change what `changes` has of `url`, `events`, `is_active` and `description`; the secret stays.

    While a webhook is off, nothing is written for it; what it has waiting is dropped, as by `delete`. No attempt to one
    that is off, or to an address that is no longer its own, begins after this returns. Raises Webhook.DoesNotExist,
    and StillDropping while much is waiting when it is turned on. Must not run inside a transaction.
    """
    until = time.monotonic() + DROP_SECONDS
    if changes.get("is_active"):
        # What was left over when it was turned off: before its row is locked, for which all who tell it of news wait.
        _drop_pending(webhook_id, until=until)
    with transaction.atomic(durable=True):
        webhook = Webhook.of(account_id).select_for_update().get(id=webhook_id)
        written = {name: value for name, value in changes.items() if value != getattr(webhook, name)}
        is_turned_off, is_moved = written.get("is_active") is False, "url" in written
        if written.get("is_active"):
            _drop_pending(webhook_id, until=until)  # what is left of that
            if _has_pending(webhook_id):
                raise StillDropping
        # How it did there and then says nothing of how it does now. Whoever was told that it fails is told when a new
        # address answers.
        if "is_active" in written or (is_moved and not webhook.is_alarmed):
            written |= {"is_failing": False, "failing_since": None, "is_alarmed": False}
        if written:
            for name, value in written.items():
                setattr(webhook, name, value)
            webhook.save(update_fields=list(written))
            note(Action.WEBHOOK_CHANGED, webhook)
        if is_turned_off or is_moved:
            delivery.hold_off_claims()
    if is_turned_off:
        _end(webhook_id)
    elif is_moved:
        _wait_for_begun(webhook_id, since=time.monotonic())
    return webhook


def rotate_secret(account_id: UUID, webhook_id: UUID, *, replaces: str | None = None) -> tuple[Webhook, str]:
    """A new signing secret, in use from now on and to be shown now or never. For OVERLAP the one before it signs too.

    When this returns, no attempt will begin any more that the new one does not sign. Raises Webhook.DoesNotExist; and
    SecretChanged when `replaces`, a secret's hint, is given and no longer its own. Must not run inside a transaction.
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
    """Delete a webhook and drop its pending deliveries. When this returns, no attempt to it will begin any more.

    Raises Webhook.DoesNotExist; and DatabaseError only while nothing is deleted. Must not run inside a transaction:
    what follows the deletion counts on its commit. When there is much to drop, or the database goes away, the rest is
    left to `drop_left_over`; it counts as dropped from now on.
    """
    with transaction.atomic(durable=True):
        # Waits for what is being published or resent to it, and holds up none after that for long: the deliveries are
        # dropped when the lock is gone, since a claim looks for `deleted_at` itself. FOR UPDATE comes first: an UPDATE
        # that touches no key alone would not hold up those who share it (FOR KEY SHARE).
        webhook = Webhook.of(account_id).select_for_update().get(id=webhook_id)
        Webhook.objects.filter(id=webhook.id).update(deleted_at=Now())
        note(Action.WEBHOOK_DELETED, webhook)
        delivery.hold_off_claims()
    _end(webhook_id)


def _end(webhook_id: UUID) -> None:
    """Drop what a webhook that was just deleted or turned off has waiting, as far as it gets in an answer's time.

    When this returns, no attempt to it will begin any more.
    """
    ended_at = time.monotonic()
    try:
        _drop_pending(webhook_id, until=ended_at + DROP_SECONDS)
    except DatabaseError as error:
        logger.warning("what webhook %s has waiting is dropped later: %s", webhook_id, error)
    _wait_for_begun(webhook_id, since=ended_at)


def note(action: Action, webhook: Webhook) -> None:
    """Note it in the security log, by the webhook's host alone: shops write passwords into the rest of an address."""
    host = urlsplit(webhook.url).hostname or ""
    security_log.note(action, target=host, target_id=webhook.id, account_id=webhook.account_id)


def drop_left_over() -> int:
    """Drop what webhooks that are deleted or off still have waiting, batch by batch; how many deliveries."""
    with connection.cursor() as cursor:
        cursor.execute(_ENDED_AND_WAITING)
        ended = [webhook_id for (webhook_id,) in cursor.fetchall()]
    return sum(_drop_pending(webhook_id) for webhook_id in ended)


_ENDED_AND_WAITING = f"""{queue.HEADS}
SELECT id FROM webhooks_webhook
WHERE id IN (SELECT webhook_id FROM heads) AND (deleted_at IS NOT NULL OR NOT is_active)
"""  # noqa: S608  (of our own text)

_WAITING = """{name} AS (
    SELECT id FROM webhooks_delivery WHERE webhook_id = (SELECT id FROM ended) AND {is_in_it}
    ORDER BY next_attempt_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED
)"""
# The webhook's key is held, and looked at again, before that: it may be on once more, and what is written for it then
# is not dropped. What is locked is being settled, and dropped later if it is then pending still.
_DROP = f"""
WITH ended AS MATERIALIZED (
    SELECT id FROM webhooks_webhook
    WHERE id = %(webhook_id)s AND (deleted_at IS NOT NULL OR NOT is_active) FOR KEY SHARE
), {queue.of_each_lane(_WAITING, between=", ")}
UPDATE webhooks_delivery SET status = 'dropped', next_attempt_at = NULL, finished_at = now()
WHERE id = ANY(ARRAY({queue.of_each_lane("SELECT id FROM {name}")}))
"""  # noqa: S608  (of our own text)


def _drop_pending(webhook_id: UUID, *, until: float = math.inf) -> int:
    """Drop what a webhook has waiting while it is deleted or off, as far as it gets until then; how many deliveries."""
    count, dropped = 0, _BATCH
    with connection.cursor() as cursor:
        while dropped >= _BATCH and time.monotonic() < until:
            cursor.execute(_DROP, {"webhook_id": webhook_id, "batch": _BATCH})
            dropped = cursor.rowcount
            count += dropped
    return count


_PENDING = queue.of_each_lane(
    "(SELECT 1 FROM webhooks_delivery WHERE webhook_id = %(id)s AND {is_in_it} ORDER BY next_attempt_at LIMIT 1)"
)


def _has_pending(webhook_id: UUID) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_PENDING, {"id": webhook_id})
        return cursor.fetchone() is not None


def _wait_for_begun(webhook_id: UUID, *, since: float) -> None:
    """Wait until all workers that claimed deliveries before a commit have begun, and mostly ended, their posts.

    The commit was at `since`, and its transaction held off claims and renewals: CLAIM_TO_POST later all of them have
    begun at the latest, also when the database cannot say so.
    """
    until = since + CLAIM_TO_POST.total_seconds()
    try:
        with connection.cursor() as cursor:
            while time.monotonic() < until:
                # A claim that was made longer ago has begun: only its answer is still to come.
                cursor.execute(
                    "SELECT EXISTS (SELECT FROM webhooks_claim WHERE webhook_id = %s AND until > now() + %s)",
                    [webhook_id, delivery.LEASE - CLAIM_TO_POST],
                )
                if not cursor.fetchone()[0]:
                    return
                time.sleep(0.01)
    except DatabaseError as error:
        logger.warning("what is under way to webhook %s is given its time: %s", webhook_id, error)
        time.sleep(max(until - time.monotonic(), 0.0))


def problem_with_secrets() -> str:
    """What is wrong with the signing secrets, for `check_service`; empty when each of them can be read."""
    webhooks = Webhook.objects.filter(deleted_at=None).values_list("secret", flat=True)
    count = sum(not secrets.is_readable(bytes(secret)) for secret in webhooks.iterator(chunk_size=500))
    if not count:
        return ""
    return (
        f"not all can be read (unreadable: {count}), and nothing is sent to these webhooks: put the key that they were"
        " encrypted under back into ENCRYPTION_KEYS (it is kept beside the backup), and restart"
    )

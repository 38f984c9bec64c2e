"""Sending deliveries once more, at once, because somebody asked on a page, by API, in the console or by command."""

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from codservice import postgresql
from codservice.accounts.security_log import Action
from codservice.errors import Invalid, Refused
from webhooks import events, registry, wakeup
from webhooks.models import Delivery, Webhook

MOST_ATTEMPTS = 100  # of one delivery, resends included
MOST_AT_ONCE = 1000  # deliveries that a statement or a click resends; for more, click again or use the command
POSSIBLE = Q(  # the same conditions as in _RESEND
    ~Q(status=Delivery.Status.DROPPED),
    attempt_count__lt=MOST_ATTEMPTS,
    webhook__deleted_at=None,
    webhook__is_active=True,
)
WAITING = Q(  # have failed, and are tried again later; what is due by now is on its way
    status=Delivery.Status.PENDING, attempt_count__gt=0, next_attempt_at__gt=Now()
)

# The webhook is locked so that it cannot be deleted meanwhile: nothing comes back into a queue that was dropped. It is
# locked and checked again in a step of its own. A join that locks both would lock the delivery before it checks again:
# after waiting for a deletion it would hold deliveries, and the deletion would pass over them.
_RESEND = """
WITH webhook AS MATERIALIZED (
    SELECT id FROM webhooks_webhook
    WHERE id = ANY(ARRAY(SELECT webhook_id FROM webhooks_delivery WHERE id = ANY(%(ids)s)))
      AND deleted_at IS NULL AND is_active
    ORDER BY id FOR KEY SHARE
), locked AS (
    SELECT d.id, d.status FROM webhooks_delivery d JOIN webhook ON webhook.id = d.webhook_id
    WHERE d.id = ANY(%(ids)s) AND d.status IN ('pending', 'delivered', 'failed') AND d.attempt_count < %(most)s
    ORDER BY d.id FOR UPDATE OF d
)
UPDATE webhooks_delivery d SET
    status = 'pending',
    retries_left = CASE WHEN locked.status = 'pending' THEN d.retries_left ELSE 0 END,
    next_attempt_at = LEAST(d.next_attempt_at, now()),
    finished_at = NULL
FROM locked WHERE d.id = locked.id
RETURNING d.id
"""


def resend(ids: Sequence[UUID]) -> list[UUID]:
    """Send each of these deliveries again at once, with the same id and body. Returns the ids of those that will be.

    A finished one gets one more attempt, whose outcome is its new status. One that waits for its next attempt gets it
    now, and its schedule goes on from there; one that is under way or due already keeps its attempt. Dropped ones,
    those of a webhook that is deleted or off, and those with MOST_ATTEMPTS are left alone.
    """
    resent = [id_ for (id_,) in postgresql.rows(_RESEND, {"ids": list(ids), "most": MOST_ATTEMPTS})]
    if resent:
        wakeup.after_commit()
    return resent


def resend_noted(ids: Sequence[UUID], noted: set[UUID]) -> list[UUID]:
    """Like `resend`, for a person and in one transaction.

    Notes each webhook that is not in `noted` yet in the security log, and adds it to `noted`."""
    with transaction.atomic():
        resent = resend(ids)
        told = Delivery.objects.filter(id__in=resent).values("webhook_id")
        for webhook in Webhook.objects.without_secrets().filter(id__in=told).exclude(id__in=noted):
            registry.note(Action.RESENT, webhook)
            noted.add(webhook.id)
    return resent


class TooManyAttempts(Refused):
    code, in_the_way = "too_many_attempts", "attempt_count"
    message = f"This delivery has had {MOST_ATTEMPTS} attempts, which is the maximum."


class Dropped(Invalid):
    """The delivery was waiting when its webhook was turned off; only a recovery sends it."""

    def __init__(self) -> None:
        super().__init__({"status": ["It was dropped when its webhook was turned off. Recover the webhook."]})


def resend_one(id_: UUID) -> None:
    """Like `resend`, for one delivery.

    Raises TooManyAttempts, events.WebhookOff, Dropped; and Delivery.DoesNotExist or Webhook.DoesNotExist when its
    webhook is deleted.
    """
    if resend([id_]):
        return
    left = Delivery.objects.with_webhook().get(id=id_, webhook__deleted_at=None)
    if left.attempt_count >= MOST_ATTEMPTS:
        raise TooManyAttempts
    if not left.webhook.is_active:
        raise events.WebhookOff
    if left.status == Delivery.Status.DROPPED:
        raise Dropped
    if not resend([id_]):  # it was off, was turned on meanwhile, and is off again or gone
        raise events.off_or_gone(left.webhook.account_id, left.webhook_id)

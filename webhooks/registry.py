"""The webhooks of an account: registered, given new secrets, deleted (contract, section 8)."""

import time
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from codservice.accounts.models import Account
from codservice.errors import Invalid
from webhooks import secrets
from webhooks.delivery import LEASE
from webhooks.models import Webhook

MOST_WEBHOOKS = 20  # of one account
OVERLAP = timedelta(hours=24)  # for which the secret before the newest signs too
# What a worker takes, at most, from the commit of its claim to having begun the posts.
CLAIM_TO_POST = timedelta(milliseconds=200)
_BATCH = 5000  # deliveries that a statement drops


def register(account_id: UUID, *, url: str, events: Sequence[str]) -> tuple[Webhook, str]:
    """A new webhook for a URL from `receivers.normalise`, and its signing secret, to be shown now or never.

    Raises Invalid when the account has MOST_WEBHOOKS already.
    """
    secret = secrets.make_secret()
    with transaction.atomic():
        # The account's row is the lock under which its webhooks are counted.
        Account.objects.select_for_update(no_key=True).get(id=account_id)
        if Webhook.objects.filter(account_id=account_id, deleted_at=None).count() >= MOST_WEBHOOKS:
            raise Invalid({"url": [f"The account has {MOST_WEBHOOKS} webhooks, which is the most; delete one first."]})
        webhook = Webhook.objects.create(
            account_id=account_id,
            url=url,
            events=list(events),
            secret=secrets.encrypt(secret),
            secret_hint=secrets.hint(secret),
        )
    return webhook, secret


def rotate_secret(account_id: UUID, webhook_id: UUID) -> tuple[Webhook, str]:
    """A new signing secret, in use from now on and to be shown now or never. For OVERLAP the one before it signs too.

    Raises Webhook.DoesNotExist.
    """
    secret = secrets.make_secret()
    with transaction.atomic():
        Webhook.objects.filter(id=webhook_id, account_id=account_id, deleted_at=None).update(
            previous_secret=F("secret"),
            previous_secret_until=Now() + OVERLAP,
            secret=secrets.encrypt(secret),
            secret_hint=secrets.hint(secret),
        )
        return Webhook.objects.get(id=webhook_id, account_id=account_id, deleted_at=None), secret


def delete(account_id: UUID, webhook_id: UUID) -> None:
    """Delete a webhook and drop its pending deliveries. When this returns, no attempt to it will begin any more.

    Raises Webhook.DoesNotExist. Must not run inside a transaction: what follows the deletion counts on its commit.
    """
    with transaction.atomic(durable=True):
        # Waits for the changes that are being published to it, and holds up none after that for long: the deliveries
        # are dropped when the lock is gone, since a claim looks for `deleted_at` itself.
        webhook = Webhook.objects.select_for_update().get(id=webhook_id, account_id=account_id, deleted_at=None)
        Webhook.objects.filter(id=webhook.id).update(deleted_at=Now())
    drop_pending(webhook_id)
    _wait_for_claims(webhook_id)


def drop_pending(webhook_id: UUID) -> int:
    """Drop what a deleted webhook has waiting; how many deliveries. In batches, each committed."""
    count = 0
    with connection.cursor() as cursor:
        while True:
            # Locked by key, as a settlement locks them.
            cursor.execute(
                "UPDATE webhooks_delivery d SET status = 'dropped', next_attempt_at = NULL, finished_at = now() FROM ("
                " SELECT id FROM webhooks_delivery WHERE webhook_id = %s AND status = 'pending'"
                " ORDER BY id LIMIT %s FOR UPDATE) AS locked WHERE d.id = locked.id",
                [webhook_id, _BATCH],
            )
            count += cursor.rowcount
            if cursor.rowcount < _BATCH:
                return count


def _wait_for_claims(webhook_id: UUID) -> None:
    """Until the last worker that claimed deliveries before they were dropped has begun, and mostly ended, its posts."""
    with connection.cursor() as cursor:
        while True:
            # A claim that was made longer ago has begun: only its answer is still to come.
            cursor.execute(
                "SELECT EXISTS (SELECT FROM webhooks_claim WHERE webhook_id = %s AND until > now() + %s)",
                [webhook_id, LEASE - CLAIM_TO_POST],
            )
            if not cursor.fetchone()[0]:
                return
            time.sleep(0.01)

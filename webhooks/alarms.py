"""Mails about webhooks that have stopped answering, and about their recovery.

The webhooks' rows record what holders were told. They are written after the mail was sent: if the process is killed in
between, the mail is sent once more when its lease is over, but never lost.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from secrets import randbits
from typing import Any

from django.db import transaction
from django.db.models import Func, Q
from django.db.models.functions import Now
from django.urls import reverse

from codservice import mails
from codservice.operations import duties
from webhooks.models import Webhook, WebhookQuerySet

logger = logging.getLogger(__name__)

DUTY = "webhook-alarms"
AT_MOST_EVERY = timedelta(days=1)  # between mails that a webhook fails
LEASE = timedelta(minutes=5)
SECONDS = 20.0  # how long a round holds one of a worker's few threads; slow mails leave the rest to the next round
MOST = 500  # failing webhooks in a round, and as many that are well again


def tell() -> int:
    """Mail account holders whose webhooks fail or are well again; one worker at a time. Returns how many mails."""
    taken = duties.take(DUTY, every=timedelta(0), lease=LEASE)
    if taken is None:
        return 0
    until = time.monotonic() + SECONDS
    try:
        # Of accounts whose holder can be told. A twin has none: nobody needs a mail about a developer's own receiver.
        # A mail without an address is no error to Django, which sends nothing.
        webhooks = Webhook.objects.filter(
            deleted_at=None, is_active=True, account__is_active=True, account__holder__is_active=True
        ).exclude(account__holder__email="")
        # A webhook that failed before migration 0008 brought this time has none. It is ahead when the database's clock
        # was set back.
        unknown = Q(failing_since=None) | Q(failing_since__gt=Now())
        _record(webhooks.filter(unknown, is_failing=True), failing_since=Now())
        is_time = Q(alarmed_at=None) | Q(alarmed_at__lte=Now() - AT_MOST_EVERY) | Q(alarmed_at__gt=Now())
        failing = webhooks.unanswered().filter(is_time, is_alarmed=False)
        well = webhooks.filter(is_failing=False, is_alarmed=True)
        news: list[tuple[str, WebhookQuerySet, dict[str, Any]]] = [
            ("failing", failing, {"is_alarmed": True, "alarmed_at": Now()}),
            ("well", well, {"is_alarmed": False}),
        ]
        if randbits(1):
            news.reverse()
        return sum(_tell_all(*each, until) for each in news)
    finally:
        duties.leave(DUTY, taken, is_done=True)


def _tell_all(mail: str, webhooks: WebhookQuerySet, record: dict[str, Any], until: float) -> int:
    """Go account by account, in a random order, so that holders who cannot be mailed do not keep others waiting."""
    of_account = defaultdict(list)
    turn = Func("account_id", randbits(62), function="uuid_hash_extended")
    webhooks = webhooks.without_secrets().select_related("account__holder").order_by(turn, "id")
    for webhook in webhooks[:MOST]:
        of_account[webhook.account_id].append(webhook)
    return sum(_tell(mail, theirs, record) for theirs in of_account.values() if time.monotonic() < until)


def _tell(mail: str, webhooks: Sequence[Webhook], record: dict[str, Any]) -> bool:
    """Send one mail about all these webhooks of an account. Returns whether it was sent.

    Their rows then have the `record` of it. If the mail fails, the next round tries again. If it is refused for good,
    as where the mailbox is gone, it is tried again a day later, and no mail tells of an end of what nobody heard of.
    """
    account = webhooks[0].account
    context = {"webhooks": webhooks, "account": account, "link": mails.link(reverse("account-webhooks"))}
    subject, text = mails.subject_and_text(f"webhooks/mail_{mail}", context)
    is_sent = True
    try:
        mails.send(subject, text, account.holder.email)
    except (OSError, ValueError) as error:  # smtplib's errors; an address or text that no mail can have
        logger.warning("the holder of account %s could not be mailed about a webhook: %s", account.id, error)
        if not mails.is_refused_for_good(error):
            return False
        is_sent, record = False, record | {"is_alarmed": False}
    told = Webhook.objects.filter(id__in=[webhook.id for webhook in webhooks])
    if mail == "failing":
        # One that was turned off or moved meanwhile has begun anew (`registry.change`), and nobody was told of that.
        told = told.filter(url__in=[webhook.url for webhook in webhooks], is_active=True)
    _record(told, **record)
    return is_sent


def _record(webhooks: WebhookQuerySet, **values: Any) -> None:
    """Write `values` into these rows. They are locked by their ids first, as `rotate_encryption_key` does it."""
    with transaction.atomic():
        ids = list(webhooks.order_by("id").select_for_update(of=("self",), no_key=True).values_list("id", flat=True))
        Webhook.objects.filter(id__in=ids).update(**values)

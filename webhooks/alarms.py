"""Mails about webhooks that have stopped answering, and about their being well again.

What was told stands in the webhooks' rows. It is written after the mail has gone: what is killed in between tells it
once more, when its lease is over, and nobody is told nothing.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from secrets import randbits
from uuid import UUID

from django.conf import settings
from django.db.models import Func, Q
from django.db.models.functions import Now

from codservice import mails
from codservice.operations import duties
from webhooks.models import Webhook, WebhookQuerySet

logger = logging.getLogger(__name__)

DUTY = "webhook-alarms"
AT_MOST_EVERY = timedelta(days=1)  # mails that a webhook has failed
LEASE = timedelta(minutes=5)
SECONDS = 20.0  # of a round, which holds one of a worker's few threads; what slow mails leave is the next one's
MOST = 500  # webhooks of a round


def tell() -> int:
    """Mail to account holders what they are to know; how many mails. One worker at a time does it."""
    taken = duties.take(DUTY, every=timedelta(0), lease=LEASE)
    if taken is None:
        return 0
    until = time.monotonic() + SECONDS
    try:
        webhooks = Webhook.objects.filter(deleted_at=None, is_active=True)
        # Code of before, which runs beside a migration, notes no time.
        webhooks.filter(is_failing=True, failing_since=None).update(failing_since=Now())
        news = [("failing", _failing(webhooks)), ("well", _well(webhooks))]
        if randbits(1):
            news.reverse()
        return sum(_tell_all(of_them, what, until) for what, of_them in news)
    finally:
        duties.leave(DUTY, taken, is_done=True)


def _failing(webhooks: WebhookQuerySet) -> WebhookQuerySet:
    is_time = Q(alarmed_at=None) | Q(alarmed_at__lte=Now() - AT_MOST_EVERY)
    return webhooks.unanswered().filter(is_time, is_alarmed=False)


def _well(webhooks: WebhookQuerySet) -> WebhookQuerySet:
    return webhooks.filter(is_failing=False, is_alarmed=True)


def _tell_all(webhooks: WebhookQuerySet, what: str, until: float) -> int:
    """Account by account, in another order in each round: who cannot be told keeps nobody behind waiting for ever."""
    of_account = defaultdict(list)
    turn = Func("account_id", randbits(62), function="uuid_hash_extended")
    webhooks = webhooks.without_secrets().select_related("account__holder").order_by(turn, "id")
    for webhook in webhooks[:MOST]:
        of_account[webhook.account_id].append(webhook)
    return sum(_tell(account, what) for account in of_account.values() if time.monotonic() < until)


def _tell(webhooks: Sequence[Webhook], what: str) -> bool:
    """Send one mail about all of an account's webhooks. One that cannot be sent is tried again in the next round."""
    account = webhooks[0].account
    holder = account.holder  # a twin has none: that a developer's own receiver rests is no news
    if account.is_active and holder is not None and holder.is_active and holder.email:
        context = {"webhooks": webhooks, "account": account, "link": _link()}
        subject, text = mails.subject_and_text(f"webhooks/mail_{what}", context)
        try:
            mails.send(subject, text, holder.email)
        except (OSError, ValueError) as error:  # smtplib's own; and an address or text that makes no mail
            logger.warning("the holder of account %s could not be told of a webhook: %s", account.id, error)
            return False
    _note([webhook.id for webhook in webhooks], what)
    return True


def _note(ids: Sequence[UUID], what: str) -> None:
    changes = {"is_alarmed": True, "alarmed_at": Now()} if what == "failing" else {"is_alarmed": False}
    Webhook.objects.filter(id__in=ids).update(**changes)


def _link() -> str:
    """Where the pages are, when the settings name one host."""
    hosts = [host for host in settings.ALLOWED_HOSTS if host.strip("*.")]
    return f"http{'s' if settings.HTTPS else ''}://{hosts[0]}/account/webhooks" if len(hosts) == 1 else ""

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
from uuid import UUID

from django.conf import settings
from django.db.models import Func, Q
from django.db.models.functions import Now

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
        webhooks = Webhook.objects.filter(deleted_at=None, is_active=True)
        # The previous release, which still runs during a migration, does not set this time. It is ahead when the
        # database's clock was set back.
        unknown = Q(failing_since=None) | Q(failing_since__gt=Now())
        webhooks.filter(unknown, is_failing=True).update(failing_since=Now())
        news = [("failing", _failing(webhooks)), ("well", _well(webhooks))]
        if randbits(1):
            news.reverse()
        return sum(_tell_all(of_them, what, until) for what, of_them in news)
    finally:
        duties.leave(DUTY, taken, is_done=True)


def _failing(webhooks: WebhookQuerySet) -> WebhookQuerySet:
    is_time = Q(alarmed_at=None) | Q(alarmed_at__lte=Now() - AT_MOST_EVERY) | Q(alarmed_at__gt=Now())
    return webhooks.unanswered().filter(is_time, is_alarmed=False)


def _well(webhooks: WebhookQuerySet) -> WebhookQuerySet:
    return webhooks.filter(is_failing=False, is_alarmed=True)


def _tell_all(webhooks: WebhookQuerySet, what: str, until: float) -> int:
    """Go account by account, in a random order, so that holders who cannot be mailed do not keep others waiting."""
    of_account = defaultdict(list)
    turn = Func("account_id", randbits(62), function="uuid_hash_extended")
    webhooks = webhooks.without_secrets().select_related("account__holder").order_by(turn, "id")
    for webhook in webhooks[:MOST]:
        of_account[webhook.account_id].append(webhook)
    return sum(_tell(account, what) for account in of_account.values() if time.monotonic() < until)


def _tell(webhooks: Sequence[Webhook], what: str) -> bool:
    """Send one mail about all these webhooks of an account, if its holder is to get any. Returns whether it was sent.

    If that fails, the next round tries again.
    """
    account = webhooks[0].account
    holder = account.holder  # a twin has none: nobody needs a mail about a developer's own receiver
    to = holder.email if account.is_active and holder is not None and holder.is_active else ""
    if to:
        context = {"webhooks": webhooks, "account": account, "link": _link()}
        subject, text = mails.subject_and_text(f"webhooks/mail_{what}", context)
        try:
            mails.send(subject, text, to)
        except (OSError, ValueError) as error:  # smtplib's errors; an address or text that no mail can have
            logger.warning("the holder of account %s could not be mailed about a webhook: %s", account.id, error)
            return False
    _note([webhook.id for webhook in webhooks], what)
    return bool(to)


def _note(ids: Sequence[UUID], what: str) -> None:
    changes = {"is_alarmed": True, "alarmed_at": Now()} if what == "failing" else {"is_alarmed": False}
    Webhook.objects.filter(id__in=ids).update(**changes)


def _link() -> str:
    """Return the URL of the account's webhooks page, or "" unless the settings name exactly one host."""
    hosts = [host for host in settings.ALLOWED_HOSTS if host.strip("*.")]
    return f"http{'s' if settings.HTTPS else ''}://{hosts[0]}/account/webhooks" if len(hosts) == 1 else ""

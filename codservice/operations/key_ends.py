"""Mails to account holders whose API keys are in use and about to end, so that no shop stops overnight.

A key's row records that its holder was told, after the mail was sent: if the process is killed in between, the mail is
sent once more, but never lost.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone

from codservice import days, mails
from codservice.accounts.models import ApiKey
from codservice.operations import duties

logger = logging.getLogger(__name__)

DUTY = "key-ends"
LEASE = timedelta(minutes=5)
SECONDS = 20.0  # how long a round holds one of a worker's few threads; slow mails leave the rest to the next round


def tell() -> int:
    """Mail holders about keys that end soon, all of an account's at once. Returns how many mails.

    One worker at a time. A twin has no holder: nobody needs a mail about a developer's own tries.
    """
    taken = duties.take(DUTY, every=timedelta(0), lease=LEASE)
    if taken is None:
        return 0
    until = time.monotonic() + SECONDS
    try:
        ending = ApiKey.in_use().filter(
            is_end_told=False, expires_at__gt=Now(), expires_at__lt=Now() + ApiKey.ENDS_SOON,
            account__is_active=True, account__holder__is_active=True,
        ).exclude(account__holder__email="")  # fmt: skip
        of_account = defaultdict(list)
        # In a random order, so that holders who cannot be mailed do not keep others waiting.
        for key in ending.select_related("account__holder").order_by("?"):
            of_account[key.account_id].append(key)
        return sum(_tell(theirs) for theirs in of_account.values() if time.monotonic() < until)
    finally:
        duties.leave(DUTY, taken, is_done=True)


def _tell(keys: Sequence[ApiKey]) -> bool:
    """Send one mail about all these keys of an account. Returns whether it was sent.

    If it fails, the next round tries again, unless it is refused for good, as where the mailbox is gone.
    """
    account = keys[0].account
    keys = sorted(keys, key=lambda key: (key.expires_at, key.id))
    context = {"keys": keys, "account": account, "link": mails.link(reverse("api-keys"))}
    with timezone.override(days.ALGIERS):
        subject, text = mails.subject_and_text("accounts/mail_key_ends", context)
    is_sent = True
    try:
        mails.send(subject, text, account.holder.email)
    except (OSError, ValueError) as error:  # smtplib's errors; an address or text that no mail can have
        logger.warning("the holder of account %s could not be mailed about a key: %s", account.id, error)
        if not mails.is_refused_for_good(error):
            return False
        is_sent = False
    for key in keys:  # one by one: nothing waits for two of them
        ApiKey.objects.filter(id=key.id).update(is_end_told=True)
    return is_sent

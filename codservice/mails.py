"""What mails share: which addresses are valid, texts in all languages for mails that nobody asked for, and sending."""

import smtplib
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.mail.message import sanitize_address
from django.core.validators import validate_email
from django.template.loader import render_to_string
from django.utils import translation

from codservice import metrics

SENT, REFUSED, FAILED = "sent", "refused", "failed"
MAILS = metrics.Counter("codservice_mails", "Tries to send a mail, by outcome.", ["outcome"])
for _outcome in (SENT, REFUSED, FAILED):  # a series that appears with its first failure would show no rate for it
    MAILS.labels(_outcome)


def validate_address(address: str) -> None:
    """Raises ValidationError unless mail can be sent to the address.

    Django's own check accepts some addresses that no mail can have, such as a domain without an ASCII form, and some
    whose mail would go to another mailbox, such as a name with a letter beyond ASCII.
    """
    validate_email(address)
    try:
        written = sanitize_address(address, "utf-8")
    except (ValueError, IndexError):  # IndexError comes from Python, for a name that is empty when decoded
        written = ""
    if written.rpartition("@")[0] != address.rpartition("@")[0]:
        raise ValidationError(validate_email.message, code="invalid")


def _in_all_languages(template: str, context: dict[str, Any]) -> Iterator[str]:
    """Yield the text in each language, since the recipient's is not known."""
    for language, _ in settings.LANGUAGES:
        with translation.override(language):
            yield render_to_string(template, context).strip()


def subject_and_text(template: str, context: dict[str, Any]) -> tuple[str, str]:
    """Return subject and text of a mail in all languages, from `<template>_subject.txt` and `<template>.txt`."""
    subject = " · ".join(_in_all_languages(f"{template}_subject.txt", context))
    return subject, "\n\n———\n\n".join(_in_all_languages(f"{template}.txt", context))


def link(path: str) -> str:
    """The URL of a page of ours for a mail that nobody asked for, or "" unless the settings name exactly one host."""
    hosts = [host for host in settings.ALLOWED_HOSTS if host != "*"]
    is_exact = len(hosts) == 1 and not hosts[0].startswith(".")  # with a dot it is any host of a domain
    return f"http{'s' if settings.HTTPS else ''}://{hosts[0]}{path}" if is_exact else ""


def send(subject: str, text: str, to: str) -> None:
    """Send a mail, marked so that automatic replies are not sent to it (RFC 3834).

    Raises the backend's errors, and ValueError for an address or text that no mail can have."""
    try:
        EmailMessage(subject, text, to=[to], headers={"Auto-Submitted": "auto-generated"}).send()
    except (OSError, ValueError) as error:
        MAILS.labels(REFUSED if is_refused_for_good(error) else FAILED).inc()
        raise
    MAILS.labels(SENT).inc()


def is_refused_for_good(error: Exception) -> bool:
    """Whether an error of `send` is about this recipient or text, and would be the same an hour later.

    All others may pass. So may a 5xx to the log-in or the sender: it is said to every mail, until an operator mends it.
    """
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code >= 500 for code, _ in error.recipients.values())
    if isinstance(error, smtplib.SMTPDataError):
        return error.smtp_code >= 500
    return isinstance(error, ValueError)

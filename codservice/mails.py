"""What mails share: to whom they can be written, the texts of those that nobody has asked for just now, and sending."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.mail.message import sanitize_address
from django.core.validators import validate_email
from django.template.loader import render_to_string
from django.utils import translation


def validate_address(address: str) -> None:
    """Raises ValidationError unless it is an e-mail address that a mail can be written to.

    Django's own check takes some that no mail can bear, as a domain without a form in ASCII, and some whose mail would
    go to another mailbox, as one whose name has a letter beyond ASCII.
    """
    validate_email(address)
    try:
        written = sanitize_address(address, "utf-8")
    except (ValueError, IndexError):  # the latter from Python, of a name that is nothing decoded
        written = ""
    if written.rpartition("@")[0] != address.rpartition("@")[0]:
        raise ValidationError(validate_email.message, code="invalid")


def _in_all_languages(template: str, context: dict[str, Any]) -> Iterator[str]:
    """The text in each language: whoever gets such a mail did not say in which."""
    for language, _ in settings.LANGUAGES:
        with translation.override(language):
            yield render_to_string(template, context).strip()


def subject_and_text(template: str, context: dict[str, Any]) -> tuple[str, str]:
    """Subject and text of a mail in all languages, from `<template>_subject.txt` and `<template>.txt`."""
    subject = " · ".join(_in_all_languages(f"{template}_subject.txt", context))
    return subject, "\n\n———\n\n".join(_in_all_languages(f"{template}.txt", context))


def send(subject: str, text: str, to: str) -> None:
    """Send a mail that no absent person's mail program answers (RFC 3834). Raises what its backend does, and ValueError
    for an address or text that makes no mail."""
    EmailMessage(subject, text, to=[to], headers={"Auto-Submitted": "auto-generated"}).send()

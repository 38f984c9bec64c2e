"""Mails that somebody has just asked for, and how workers are asked to send them."""

import logging
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from celery import shared_task
from celery.exceptions import OperationalError
from django.conf import settings
from django.contrib.auth.forms import PasswordResetForm
from django.db.models.functions import Now
from django.http.request import split_domain_port, validate_host
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import translation
from django.utils.http import is_same_domain

from codservice import mails, ratelimit
from codservice.accounts import team
from codservice.accounts.key_format import digest_of
from codservice.accounts.models import Invitation
from codservice.celery import Task

logger = logging.getLogger(__name__)

EXPIRES = 60 * 60  # seconds, after which an unsent mail is dropped
# Seconds before a mail that could not be sent is tried again, as while its server or the database is away.
# Celery's `retry` does here: this is far less than a Redis broker's visibility timeout, and over before EXPIRES.
WAITS = (60, 120, 240, 480)
LINK_HOURS = settings.PASSWORD_RESET_TIMEOUT // 3600


def have_mailed(task: Task, *arguments: str, **options: str) -> None:
    """Have a worker run one of the tasks below. Raises OperationalError when the broker is away."""
    need_broker()
    task.apply_async(arguments, options, expires=EXPIRES)


def need_broker() -> None:
    """Raise OperationalError while Redis is known to be away. The rate limits, checked before, have noticed.

    While Redis hangs, a request that asked it would wait and block a thread.
    """
    if ratelimit.counter.is_paused:
        raise OperationalError("Redis does not answer")


def _try_later(task: Task, error: Exception) -> None:
    """Have a worker run the task that runs once more, and end it, if its mail met an error that may pass.

    The message is the one that it had: whoever asked is counted once.
    """
    tries = task.request.retries
    if tries < len(WAITS) and not mails.is_refused_for_good(error):
        task.retry(countdown=WAITS[tries], max_retries=len(WAITS))


class _Mailing(Task):
    """A task that nobody sends again: where the database is away, its mail has failed and is tried later."""

    def missed(self, error: Exception) -> None:
        mails.MAILS.labels(mails.FAILED).inc()
        _try_later(self, error)


class _LinkForm(PasswordResetForm):
    """Django's form, whose mail is sent as ours are."""

    def send_mail(
        self,
        subject_template_name: str,
        email_template_name: str,
        context: dict[str, Any],
        from_email: str | None,
        to_email: str,
        html_email_template_name: str | None = None,
    ) -> None:
        subject, text = (
            render_to_string(name, context).strip() for name in (subject_template_name, email_template_name)
        )
        try:
            mails.send(subject, text, to_email)
        except (OSError, ValueError) as error:  # smtplib's errors; an address or text that no mail can have
            logger.warning("the password link of user %s could not be mailed: %s", context["user"].pk, error)
            _try_later(send_password_link, error)


@shared_task(base=_Mailing)
def send_password_link(email: str, *, host: str, language: str) -> None:
    """Mail a password link to the active person with this address, if there is one.

    The lookup is done here in the worker, so that a request takes the same time for known and unknown addresses.
    Whoever can write to Redis could send this task too, so the link leads only to our own hosts.
    """
    ours = _our_host(host)
    if not ours:
        return
    with translation.override(language if language in dict(settings.LANGUAGES) else settings.LANGUAGE_CODE):
        form = _LinkForm({"email": email})
        if form.is_valid():
            form.save(
                domain_override=ours,
                use_https=settings.HTTPS,
                subject_template_name="accounts/password_link_subject.txt",
                email_template_name="accounts/password_link.txt",
                extra_email_context={"hours": LINK_HOURS},
            )


@shared_task(base=_Mailing)
def send_invitation(invitation_id: UUID | str, *, host: str) -> None:
    """Mail the link of an invitation, unless it was withdrawn or mailed meanwhile.

    If the address already signs in, the mail says so and has no link. The worker makes the link, so that Redis never
    holds it.
    """
    waiting = Invitation.objects.select_related("account__holder").filter(expires_at__gt=Now(), sent_at=None)
    invitation = waiting.filter(id=invitation_id).first()
    if invitation is None or not (ours := _our_host(host)):
        return
    link = team.link_of(invitation)
    if link:  # a web of the version before finds it by its digest
        Invitation.objects.filter(id=invitation.id, digest=None).update(digest=digest_of(str(invitation.id)))
    start = f"http{'s' if settings.HTTPS else ''}://{ours}"
    context = {
        "account": invitation.account,
        "holder": invitation.account.holder,
        "invitation": invitation,
        "link": link and start + reverse("invitation", args=[link]),
        "days": team.WORKS_FOR.days,
    }
    subject, text = mails.subject_and_text("accounts/mail_invitation", context)
    try:
        mails.send(subject, text, invitation.email)
    except (OSError, ValueError) as error:
        logger.warning("invitation %s cannot be mailed: %s", invitation.id, error)
        _try_later(send_invitation, error)
        return
    Invitation.objects.filter(id=invitation.id).update(sent_at=Now())


def _our_host(host: str) -> str:
    """Return where a link leads that was asked for at `host`; empty, with a log line, if that is none of our hosts.

    Whoever asks may write any port behind the name. Over HTTPS a link has it only if CSRF_TRUSTED_ORIGINS does.
    """
    name, port = split_domain_port(host)
    if not validate_host(name, settings.ALLOWED_HOSTS):
        logger.warning("a link was requested for a host that is not in ALLOWED_HOSTS")
        return ""
    if not settings.HTTPS:
        return host
    origins = (urlsplit(origin) for origin in settings.CSRF_TRUSTED_ORIGINS)
    ours = (origin.netloc.removeprefix("*") for origin in origins if origin.scheme == "https")
    return f"{name}:{port}" if any(is_same_domain(f"{name}:{port}", pattern) for pattern in ours) else name

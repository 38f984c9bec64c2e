from celery import shared_task
from django.contrib.auth.forms import PasswordResetForm
from django.utils import translation


@shared_task
def send_password_link(email: str, *, host: str, is_secure: bool, language: str) -> None:
    """Mail a link for a new password to the active person with this address, if there is one.

    The look-up stands here, in the worker: whoever asks for a link waits the same time for a known address as for
    an unknown one.
    """
    with translation.override(language):
        form = PasswordResetForm({"email": email})
        if form.is_valid():
            form.save(
                domain_override=host,
                use_https=is_secure,
                subject_template_name="accounts/password_link_subject.txt",
                email_template_name="accounts/password_link.txt",
            )

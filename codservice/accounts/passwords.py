"""What a password may not be like."""

from django.contrib.auth.password_validation import UserAttributeSimilarityValidator
from django.utils.translation import gettext as _


class UnlikeThePerson(UserAttributeSimilarityValidator):
    """Django's would name a field of ours, such as a username, to people whose pages have no such field."""

    def get_error_message(self) -> str:
        return _("The password is too similar to the person’s name or to what they sign in with.")

"""How long a password must be, said in all our languages."""

from django.contrib.auth.password_validation import MinimumLengthValidator
from django.utils.translation import ngettext


class MinimumLength(MinimumLengthValidator):
    """Django's rule, of whose refusal its Arabic catalog has the words of another version."""

    def get_error_message(self) -> str:
        return ngettext(
            "This password is too short. It must contain at least %(number)d character.",
            "This password is too short. It must contain at least %(number)d characters.",
            self.min_length,
        ) % {"number": self.min_length}

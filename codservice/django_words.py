"""Texts of Django that our catalogs translate better: its Arabic has mistakes, and a name for July that nobody in
Algeria uses. Nothing imports this module; `make messages` reads it, and our catalogs take precedence over Django's.
"""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy, pgettext_lazy

WORDS = (
    _("July"),
    pgettext_lazy("abbrev. month", "July"),
    pgettext_lazy("alt. month", "July"),
    _("first name"),
    _("last name"),
    _("email address"),
    _("Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only."),
    _("Enter a valid username. This value may contain only letters, numbers, and @/./+/-/_ characters."),
    # Django chooses by the number of fields, each of which may have several errors.
    ngettext_lazy("Please correct the error below.", "Please correct the errors below."),
    ngettext_lazy(
        "Your password must contain at least %(min_length)d character.",
        "Your password must contain at least %(min_length)d characters.",
    ),
    _("Your password can’t be a commonly used password."),
    _("Your password can’t be too similar to your other personal information."),
    _("Your password can’t be entirely numeric."),
    ngettext_lazy(
        "This password is too short. It must contain at least %d character.",
        "This password is too short. It must contain at least %d characters.",
    ),
    _(
        "Please enter your old password, for security’s sake, and then enter your new password twice so we can verify "
        "you typed it in correctly."
    ),
    # Django's Arabic writes the number beside a dual form, which already means two.
    ngettext_lazy("%(num)d year", "%(num)d years"),
    ngettext_lazy("%(num)d month", "%(num)d months"),
    ngettext_lazy("%(num)d week", "%(num)d weeks"),
    ngettext_lazy("%(num)d day", "%(num)d days"),
    ngettext_lazy("%(num)d hour", "%(num)d hours"),
    ngettext_lazy("%(num)d minute", "%(num)d minutes"),
)

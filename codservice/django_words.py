"""Sentences and names of Django's, for which our catalogs have better words: its Arabic ones have slips, and July as
nobody in Algeria writes it. Nothing imports this; `make messages` reads it, and a catalog of ours goes before Django's.
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
    _("Your password can’t be too similar to your other personal information."),
    _("Your password can’t be entirely numeric."),
    ngettext_lazy(
        "This password is too short. It must contain at least %d character.",
        "This password is too short. It must contain at least %d characters.",
    ),
    _("The password is too similar to the %(verbose_name)s."),
    _(
        "Please enter your old password, for security’s sake, and then enter your new password twice so we can verify "
        "you typed it in correctly."
    ),
)

"""What call notes say in words of ours: the reasons that have buttons, and what is noted without a call.

They are stored in English, which merchants' systems read, and shown in the reader's language. What an agent writes
follows them on lines of its own.
"""

import re

from django.db import models
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from codservice.bidi import unturned


class HandoverReason(models.TextChoices):
    """The usual reasons for a handover."""

    LANGUAGE = "Speaks another language", gettext_lazy("Speaks another language")
    SUPERVISOR = "Asks for someone in charge", gettext_lazy("Asks for someone in charge")
    KNOWN = "Spoke with a colleague before", gettext_lazy("Spoke with a colleague before")
    RUDE = "Abusive or threatening", gettext_lazy("Abusive or threatening")


class SkipReason(models.TextChoices):
    """The usual reasons for a skip."""

    LINE = "Bad line", gettext_lazy("Bad line")
    DROPPED = "The call was cut off", gettext_lazy("The call was cut off")
    ASK = "I need to ask the merchant first", gettext_lazy("I need to ask the merchant first")
    KNOWN = "I know this customer", gettext_lazy("I know this customer")


class Noted(models.TextChoices):
    """What the service notes by itself."""

    REQUEUED = "Back in the queue.", gettext_lazy("Back in the queue.")
    NOT_SHOWN = "The customer's page could not be shown.", gettext_lazy("The customer's page could not be shown.")


def assigned_to(name: str) -> str:
    return f"Assigned to {name}."


_ASSIGNED = re.compile(re.escape(assigned_to("…")).replace("…", "(.+)"))
_WORDED = {each.value: each.label for words in (HandoverReason, SkipReason, Noted) for each in words}


def in_words(kept: str) -> str:
    """The note with our lines, to whom and why, in the reader's language; what an agent wrote stays as it is."""
    first, line_break, rest = kept.partition("\n")
    if assigned := _ASSIGNED.fullmatch(first):
        return _("Assigned to %(name)s.") % {"name": unturned(assigned[1])} + line_break + in_words(rest)
    return f"{_WORDED.get(first, first)}{line_break}{rest}"

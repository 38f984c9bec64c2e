"""Why orders are canceled: the reasons that have buttons in the call center, and how any reason is shown."""

from django.db import models
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy


class CancelReason(models.TextChoices):
    """Why an order is canceled. The value is what is stored, and what the merchant's systems read."""

    REFUSED = "Customer refused", gettext_lazy("Customer refused")
    UNREACHABLE = "Customer unreachable", gettext_lazy("Customer unreachable")
    WRONG_NUMBER = "Wrong number", gettext_lazy("Wrong number")
    DUPLICATE = "Duplicate", gettext_lazy("Duplicate")
    FAKE = "Fake order", gettext_lazy("Fake order")
    OUT_OF_STOCK = "Out of stock", gettext_lazy("Out of stock")
    OTHER = "Other", gettext_lazy("Other: say what")

    def kept_as(self, details: str) -> str:
        """The reason as it is stored, with the details after it; for OTHER, the details alone."""
        if self == CancelReason.OTHER:
            return details
        return f"{self.value}: {details}" if details else self.value


_SPACES = " \t\r\n\u00a0\u202f"  # French has one of the last two before a colon


def counted_as(reason: str) -> str:
    """SQL for what a reason is counted as: its text before the colon, which details follow. `reason` is SQL too."""
    return f"btrim(split_part({reason}, ':', 1), '{_SPACES}')"


_WORDED = {reason.value: reason.label for reason in CancelReason if reason != CancelReason.OTHER}


def in_words(kept: str) -> str:
    """The reason in the reader's language; what a merchant or an agent wrote stays as it is."""
    reason, _colon, details = kept.partition(":")
    reason = reason.strip(_SPACES)
    if reason not in _WORDED:
        return kept
    # Translators: why an order is canceled, and more about it.
    words = _("%(reason)s: %(details)s") if details else "%(reason)s"
    return words % {"reason": _WORDED[reason], "details": details.strip()}

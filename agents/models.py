"""Who holds which customer, and when each merchant's customers may be called."""

from datetime import time

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from codservice.accounts.models import Account, User


class ClaimQuerySet(models.QuerySet["Claim"]):
    def live(self) -> "ClaimQuerySet":
        """Those that bind somebody now, by the database's clock."""
        return self.filter(expires_at__gt=Now())

    def expired(self) -> "ClaimQuerySet":
        return self.filter(expires_at__lte=Now())


class Claim(models.Model):
    """One customer, by phone number and of whatever merchant, in the hands of one agent until `expires_at`.

    A claim that has expired binds nobody; the row stays until the customer is claimed again or the agent moves on.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    phone_e164 = models.CharField("phone (E.164)", max_length=16, unique=True)
    agent = models.ForeignKey(User, on_delete=models.CASCADE, related_name="claims")
    claimed_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    objects = ClaimQuerySet.as_manager()

    def __str__(self) -> str:
        return str(self.id)


def friday() -> list[int]:
    return [5]


class CallingRules(models.Model):
    """When and how often a merchant's customers are called again. Without a row, the defaults here hold.

    Times are Algeria's. A silent call is no cancellation: after `most_attempts` of them a supervisor decides.
    """

    account = models.OneToOneField(Account, on_delete=models.CASCADE, primary_key=True, related_name="calling_rules")
    retry_minutes = models.PositiveSmallIntegerField(
        _("minutes between tries"),
        default=120,
        validators=[MinValueValidator(5), MaxValueValidator(7 * 24 * 60)],
        help_text=_("At least this long after a call that was not answered."),
    )
    most_attempts = models.PositiveSmallIntegerField(
        _("most tries"),
        default=6,
        validators=[MinValueValidator(1), MaxValueValidator(50)],
        help_text=_("After so many calls without an answer a supervisor decides."),
    )
    opens_at = models.TimeField(_("call from"), default=time(9))
    closes_at = models.TimeField(_("call until"), default=time(20))
    days_off = ArrayField(
        models.PositiveSmallIntegerField(),
        verbose_name=_("days off"),
        default=friday,
        blank=True,
        help_text=_("ISO weekdays: 1 is Monday, 5 Friday, 7 Sunday."),
    )

    class Meta:
        verbose_name = _("calling rules")
        verbose_name_plural = _("calling rules")
        constraints = [
            models.CheckConstraint(condition=Q(opens_at__lt=F("closes_at")), name="calling_hours_in_order"),
            models.CheckConstraint(
                condition=Q(days_off__contained_by=[1, 2, 3, 4, 5, 6, 7]) & Q(days_off__len__lt=7),
                name="calling_days_left",
            ),
        ]

    def __str__(self) -> str:
        return str(self.account)

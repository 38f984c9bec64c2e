"""Claims, calling rules and hours, assignments, console preferences, and the call center's sums by day."""

from datetime import time
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Case, F, OuterRef, Q, Subquery, When
from django.db.models.functions import Now
from django.utils.dates import WEEKDAYS
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from codservice.accounts.models import Account, User
from orders.models import Status


class ClaimQuerySet(models.QuerySet["Claim"]):
    def unexpired(self) -> "ClaimQuerySet":
        """Claims that still hold, by the database's clock."""
        return self.filter(expires_at__gt=Now())

    def expired(self) -> "ClaimQuerySet":
        return self.filter(expires_at__lte=Now())

    def with_customers(self, orders: models.QuerySet) -> "ClaimQuerySet":
        """With their agents, and the `order_id` and `customer_name` of one of the customer's `orders`: the oldest that
        is pending, or else the newest."""
        waits_since = Case(When(status=Status.PENDING, then="created_at"))
        theirs = orders.filter(phone_e164=OuterRef("phone_e164")).order_by(waits_since, "-created_at")
        name, order_id = Subquery(theirs.values("customer_name")[:1]), Subquery(theirs.values("id")[:1])
        return self.select_related("agent").annotate(customer_name=name, order_id=order_id)


class Claim(models.Model):
    """One customer, by phone number and across merchants, in the hands of one agent until `expires_at`.

    An expired claim binds nobody. Its row stays for a day, or until the customer is claimed again.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    phone_e164 = models.CharField("phone (E.164)", max_length=16)
    agent = models.ForeignKey(User, on_delete=models.CASCADE, related_name="claims")
    claimed_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    objects = ClaimQuerySet.as_manager()

    class Meta:
        constraints = [
            # `unique=True` would add an index for LIKE.
            models.UniqueConstraint(fields=["phone_e164"], name="agents_claim_phone_e164_key")
        ]


def friday() -> list[int]:
    return [5]


class CallingHours(models.Model):
    """The hours of a day in which customers are called, in Algeria's time, with an optional break, for example for the
    Friday prayer or the iftar of Ramadan.
    """

    HOURS = ("opens_at", "closes_at", "break_from", "break_until")

    opens_at = models.TimeField(_("call from"))
    closes_at = models.TimeField(_("call until"))
    break_from = models.TimeField(
        _("break from"),
        null=True,
        blank=True,
        help_text=_("No calls are made during the break. Leave both empty for no break."),
    )
    break_until = models.TimeField(_("break until"), null=True, blank=True)

    class Meta:
        abstract = True

    @property
    def shifts(self) -> list[tuple[time, time]]:
        """The hours before and after the break; without a break, the whole span."""
        if self.break_from is None:
            return [(self.opens_at, self.closes_at)]
        return [(self.opens_at, self.break_from), (self.break_until, self.closes_at)]


BREAK_WITHIN = Q(break_from=None, break_until=None) | Q(
    break_from__isnull=False,
    break_until__isnull=False,
    break_from__gt=F("opens_at"),
    break_until__gt=F("break_from"),
    break_until__lt=F("closes_at"),
)


class CallingRules(CallingHours):
    """When and how often a merchant's customers are called. Without a row, the defaults here apply.

    Times are Algeria's. Unanswered calls never cancel an order: after `most_attempts` of them a supervisor decides. On
    the days of a CallingPeriod its hours apply instead; `agents.desk.hours` combines the two.
    """

    # ISO weekdays in the order of Algerian calendars, from Sunday on. Django's WEEKDAYS count from Monday, which is 0.
    DAYS = [(day, WEEKDAYS[day - 1]) for day in (7, 1, 2, 3, 4, 5, 6)]

    account = models.OneToOneField(Account, on_delete=models.CASCADE, primary_key=True, related_name="calling_rules")
    retry_minutes = models.PositiveSmallIntegerField(
        _("minutes between attempts"),
        default=120,
        validators=[MinValueValidator(5), MaxValueValidator(7 * 24 * 60)],
        help_text=_("The shortest wait after an unanswered call."),
    )
    most_attempts = models.PositiveSmallIntegerField(
        _("maximum attempts"),
        default=6,
        validators=[MinValueValidator(1), MaxValueValidator(50)],
        help_text=_("After this many unanswered calls, a supervisor decides."),
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
    keeps_holidays = models.BooleanField(
        _("public holidays are days off"),
        default=False,
        db_default=False,
        help_text=_("Algeria's public holidays. Islamic dates are estimates: if one is wrong, open the day yourself."),
    )
    script_fr = models.CharField(
        _("what agents say, in French"), max_length=2000, blank=True, default="", db_default=""
    )
    script_ar = models.CharField(
        _("what agents say, in Arabic"), max_length=2000, blank=True, default="", db_default=""
    )

    class Meta:
        verbose_name = _("calling rules")
        verbose_name_plural = _("calling rules")
        constraints = [
            models.CheckConstraint(condition=Q(opens_at__lt=F("closes_at")), name="calling_hours_in_order"),
            models.CheckConstraint(condition=BREAK_WITHIN, name="calling_break_within"),
            models.CheckConstraint(
                condition=Q(days_off__contained_by=[1, 2, 3, 4, 5, 6, 7]) & Q(days_off__len__lt=7),
                name="calling_days_left",
            ),
        ]

    @classmethod
    def of(cls, account_id: UUID) -> "CallingRules":
        """The account's rules, or the defaults."""
        return cls.objects.filter(account_id=account_id).first() or cls(account_id=account_id)

    @property
    def days_off_by_name(self) -> list[Promise]:
        return [name for day, name in self.DAYS if day in self.days_off]


class CallingPeriod(CallingHours):
    """Other calling hours for some days, of one merchant or, without one, of all: a season, or an opening made by hand.
    Or no hours, whatever the fields say: the days are closed.

    An opening applies on days off too. Where several periods overlap, openings and closings go before seasons, a
    merchant's own before one for all, and then the latest.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(
        Account,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="calling_periods",
        verbose_name=_("merchant"),
    )
    name = models.CharField(_("name"), max_length=100, blank=True)
    first_day = models.DateField(_("first day"))
    last_day = models.DateField(_("last day"))
    is_opening = models.BooleanField(_("also on days off"), default=False)
    is_closed = models.BooleanField(_("closed"), default=False, db_default=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(opens_at__lt=F("closes_at")), name="period_hours_in_order"),
            models.CheckConstraint(condition=BREAK_WITHIN, name="period_break_within"),
            models.CheckConstraint(condition=Q(first_day__lte=F("last_day")), name="period_days_in_order"),
        ]


class Preferences(models.Model):
    """How a person wants the console. Without a row, the defaults here apply. The session holds a copy."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="console_preferences")
    has_keys = models.BooleanField(default=True, db_default=True)  # single keys press buttons (WCAG 2.1.4)


class Language(models.TextChoices):
    """The languages in which a merchant's script may be written."""

    ARABIC = "ar", _("Arabic")
    FRENCH = "fr", _("French")


class Assignment(models.Model):
    """Which merchants an agent serves, and in which languages. An empty list means all, and so does having no row.

    Read and written only by `agents.desk.assignment`.
    """

    agent = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="assignment")
    # An array, not a table of pairs: deleting the last merchant's row would leave an empty list, which means all.
    merchants = ArrayField(models.UUIDField(), default=list, blank=True)
    languages = ArrayField(models.CharField(max_length=2, choices=Language), default=list, blank=True)

    @property
    def spoken(self) -> list[str]:
        """The languages' names."""
        return [str(Language(code).label) for code in self.languages]


class CallFigure(models.Model):
    """What happened in the call center on one day in Algeria: in all, or by one agent, merchant and so on.

    Written only by `agents.supervision.summing`, which says what each figure counts. Valid only while CallDay or
    CallPart has the day.
    """

    class Dimension(models.TextChoices):
        ALL = "all"  # key: empty
        AGENT = "agent"  # a person's id
        MERCHANT = "merchant"  # an account's id
        WILAYA = "wilaya"  # its code
        PRODUCT = "product"  # its id
        NAME = "name"  # what a line without a product is called
        SOURCE = "source"  # empty for orders without one
        HOUR = "hour"  # 00 to 23
        REASON = "reason"  # why orders were canceled, up to the colon

    id = models.BigAutoField(primary_key=True)
    day = models.DateField()
    dimension = models.CharField(max_length=10, choices=Dimension)
    key = models.CharField(max_length=500, blank=True)
    calls = models.PositiveIntegerField(default=0)
    reached = models.PositiveIntegerField(default=0)
    promises = models.PositiveIntegerField(default=0)
    kept = models.PositiveIntegerField(default=0)
    confirmed = models.PositiveIntegerField(default=0)
    canceled = models.PositiveIntegerField(default=0)
    delivered = models.PositiveIntegerField(default=0)
    returned = models.PositiveIntegerField(default=0)
    confirmed_amount = models.DecimalField(max_digits=18, decimal_places=2, default=0, help_text="DZD")
    canceled_amount = models.DecimalField(max_digits=18, decimal_places=2, default=0, help_text="DZD")
    delivered_amount = models.DecimalField(max_digits=18, decimal_places=2, default=0, help_text="DZD")
    returned_amount = models.DecimalField(max_digits=18, decimal_places=2, default=0, help_text="DZD")
    first_waits = models.BinaryField(default=b"", help_text="Minutes to the first calls, four bytes each.")
    decision_waits = models.BinaryField(default=b"", help_text="Minutes to the decisions, likewise.")

    class Meta:
        constraints = [
            # Also the index for reading one dimension over a period.
            models.UniqueConstraint(fields=["dimension", "day", "key"], name="one_call_figure_per_day"),
        ]


class CallDay(models.Model):
    """A day that is summed up in CallFigure."""

    day = models.DateField(primary_key=True)


class CallPart(models.Model):
    """The current day: what happened before `until` is summed up in CallFigure. At most one row.

    A trigger (migration `part_of_today`) removes it whenever days are removed from CallDay, since notes that today has
    changed may be gone with theirs.
    """

    day = models.DateField(primary_key=True)
    until = models.DateTimeField()

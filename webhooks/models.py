from codecs import getincrementaldecoder
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.postgres.fields import ArrayField, BigIntegerRangeField
from django.db import models
from django.db.models import Func, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from codservice.accounts.models import Account, account_column
from webhooks.retries import RETRIES

UNANSWERED = timedelta(hours=1)  # longer than a restart of the receiver takes


class WebhookQuerySet(QuerySet["Webhook"]):
    def without_secrets(self) -> "WebhookQuerySet":
        """For all code but signing and re-encryption: secrets that are not read cannot be shown by mistake."""
        return self.defer("secret", "previous_secret")

    def unanswered(self) -> "WebhookQuerySet":
        """Webhooks that have acknowledged nothing for an hour, so that it is time to tell the merchant."""
        return self.filter(deleted_at=None, is_active=True, is_failing=True, failing_since__lte=Now() - UNANSWERED)


class Webhook(models.Model):
    """A URL that a merchant has registered, and the kinds of events that are sent to it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="webhooks", db_index=False)
    url = models.CharField("URL", max_length=2048, help_text="Normalised: what stands here is what is dialled.")
    description = models.CharField(max_length=255, blank=True, default="", db_default="")
    events = ArrayField(models.CharField(max_length=32))
    is_active = models.BooleanField(default=True)
    # Signing secrets, encrypted under ENCRYPTION_KEYS (`webhooks.secrets`); the hint tells them apart.
    secret = models.BinaryField()
    secret_hint = models.CharField(max_length=11)
    previous_secret = models.BinaryField(null=True, help_text="Signs too, until previous_secret_until.")
    previous_secret_until = models.DateTimeField(null=True)
    # Its last attempt failed. Until one succeeds it gets fewer attempts at once, to leave room for other webhooks.
    is_failing = models.BooleanField(default=False)
    failing_since = models.DateTimeField(null=True, help_text="While it fails: since when nothing was answered well.")
    # What its account holder was told by mail about the failure (`webhooks.alarms`).
    is_alarmed = models.BooleanField(default=False, db_default=False, help_text="Was told of it, and not of its end.")
    alarmed_at = models.DateTimeField(null=True, help_text="When the holder was last told that it fails.")
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, help_text="Kept until retention ends, for its log.")

    objects = WebhookQuerySet.as_manager()

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        indexes = [
            # A merchant's list, and the webhooks that an account's event is sent to.
            models.Index(fields=["account", "created_at"], condition=Q(deleted_at=None), name="webhook_of_account"),
        ]

    def __str__(self) -> str:
        return self.url

    @property
    def both_sign_until(self) -> datetime | None:
        """Until when the previous secret signs too; None if it no longer does, though no sweep has forgotten it yet."""
        until = self.previous_secret_until
        return until if until and until > timezone.now() else None

    @classmethod
    def of(cls, account_id: UUID) -> WebhookQuerySet:
        """The account's webhooks, without secrets. Deleted ones are left out: they are kept for the log only."""
        return cls.objects.without_secrets().filter(account_id=account_id, deleted_at=None)


class Event(models.Model):
    """Something that happened. It is in the feed (`webhooks.feed`) and is sent to webhooks.

    The bytes of its body are fixed when it happens.
    """

    class Kind(models.TextChoices):
        ORDER_CREATED = "order.created"
        ORDER_UPDATED = "order.updated"  # edited, by an agent or the merchant
        ORDER_CALL_ATTEMPTED = "order.call_attempted"  # a call that decided nothing
        ORDER_CONFIRMED = "order.confirmed"
        ORDER_CANCELLED = "order.cancelled"  # two l, as the customer spells it; the order's status has one
        ORDER_SHIPPED = "order.shipped"
        ORDER_DELIVERED = "order.delivered"
        ORDER_RETURNED = "order.returned"
        PRODUCT_UPDATED = "product.updated"  # its record, also when it is created
        INVENTORY_UPDATED = "inventory.updated"

    PING = "ping"  # a test delivery that a merchant asks for; no webhook can subscribe to it
    KINDS = (*Kind.values, PING)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # The row that changed belongs to this account already; having the database check it again would only cost time.
    account = models.ForeignKey(
        Account, on_delete=models.CASCADE, related_name="+", db_index=False, db_constraint=False
    )
    kind = models.CharField(max_length=32)
    body = models.TextField(help_text="The JSON that is sent, to the byte.")
    request_id = models.CharField(
        max_length=128,
        blank=True,
        default="",
        db_default="",
        help_text="Of the request that made the change, for the log.",
    )
    created_at = models.DateTimeField(help_text="The time of the change.")
    # Set by the database itself (migrations `feed`, `feed_in_order`), also for events that are not written by
    # `events.publish`. `webhooks.feed` explains it.
    position = models.BigIntegerField(
        null=True,
        db_default=Func(function="webhooks_feed_position"),
        help_text="In the feed, before its time and id; none for test deliveries.",
    )

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        indexes = [
            # The feed, kind by kind; recoveries read it too.
            models.Index(fields=["account", "kind", "position", "created_at", "id"], name="event_in_feed"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class FeedEra(models.Model):
    """The number that is added to transaction numbers since the database server started. There is one row.

    Only the database's function `webhooks_feed_base` writes it (migration `feed`). It lets the feed's positions grow
    across restarts, also when a backup is restored to a server that numbers its transactions anew.
    """

    id = models.SmallIntegerField(primary_key=True)
    server_started_at = models.DateTimeField()
    base = models.BigIntegerField()


class FeedGap(models.Model):
    """Positions of the feed between the last event of a backup made at `backup_at`, and when it was restored."""

    positions = BigIntegerRangeField()
    backup_at = models.DateTimeField()


class DeliveryQuerySet(QuerySet["Delivery"]):
    def with_webhook(self) -> "DeliveryQuerySet":
        """Deliveries with their webhooks, without secrets."""
        return self.select_related("webhook").defer("webhook__secret", "webhook__previous_secret")


class Delivery(models.Model):
    """One event for one webhook. Pending deliveries are the queue; `next_attempt_at` says when each is due
    (`webhooks.delivery`).
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        DELIVERED = "delivered"
        FAILED = "failed"
        DROPPED = "dropped"  # the webhook was deleted or turned off

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = account_column()
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    status = models.CharField(max_length=9, choices=Status, default=Status.PENDING)
    attempt_count = models.PositiveSmallIntegerField(default=0)
    retries_left = models.PositiveSmallIntegerField(default=RETRIES)
    next_attempt_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        constraints = [
            models.UniqueConstraint(fields=["event", "webhook"], name="one_delivery_per_event_and_webhook"),
            models.CheckConstraint(
                condition=~Q(status="pending") | Q(next_attempt_at__isnull=False), name="pending_delivery_has_a_time"
            ),
        ]
        indexes = [
            # What is due, webhook by webhook, oldest first; the claim takes first attempts before retries.
            models.Index(
                fields=["webhook", "next_attempt_at"],
                condition=Q(status="pending", attempt_count=0),
                name="delivery_first_attempts",
            ),
            models.Index(
                fields=["webhook", "next_attempt_at"],
                condition=Q(status="pending", attempt_count__gt=0),
                name="delivery_retries",
            ),
            # A webhook's log, newest first.
            models.Index(fields=["webhook", "-created_at", "-id"], name="delivery_log"),
            # The same for failed deliveries: a few among many, which people look at, count and resend.
            models.Index(
                fields=["webhook", "-created_at", "-id"], condition=Q(status="failed"), name="delivery_log_failed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.id}"

    @classmethod
    def of(cls, account_id: UUID) -> DeliveryQuerySet:
        """Deliveries to those of the account's webhooks that are not deleted."""
        return cls.objects.filter(webhook__account_id=account_id, webhook__deleted_at=None)

    def shown_status(self) -> str:
        """The status that people and programs see.

        A pending delivery of a webhook that is deleted or off is shown as dropped even before its row says so.
        """
        if self.status != self.Status.PENDING or (self.webhook.deleted_at is None and self.webhook.is_active):
            return self.status
        return self.Status.DROPPED

    @classmethod
    def shown_as(cls, statuses: Sequence[str]) -> Q:
        """Filter for deliveries whose `shown_status` is one of `statuses`."""
        is_ended = Q(webhook__deleted_at__isnull=False) | Q(webhook__is_active=False)
        being_dropped = Q(is_ended, status=cls.Status.PENDING)
        chosen = Q(status__in=statuses)
        if cls.Status.DROPPED in statuses:
            return chosen | being_dropped
        return chosen & ~being_dropped if cls.Status.PENDING in statuses else chosen


class Claim(models.Model):
    """An attempt that is under way, and until when its worker is presumed alive.

    With the token `queue.NOBODY` it is a delivery that nobody is to claim until then. Claims have their own table, with
    a row only while the attempt lasts. Writing them into the deliveries would cost each delivery a second update with
    all its index entries.
    """

    delivery = models.OneToOneField(Delivery, on_delete=models.CASCADE, primary_key=True, db_constraint=False)
    webhook = models.ForeignKey(
        Webhook, on_delete=models.CASCADE, related_name="+", db_index=False, db_constraint=False
    )
    token = models.UUIDField(help_text="The claimer's; a result counts only with it.")
    until = models.DateTimeField()


_decoder = getincrementaldecoder("utf-8")  # drops a character that is cut off at the end, instead of replacing it


class Attempt(models.Model):
    """One HTTP POST of a delivery, as it went."""

    account = account_column()
    # Written while the delivery's row is locked; having the database check the key again would only cost time.
    delivery = models.ForeignKey(
        Delivery, on_delete=models.CASCADE, related_name="attempts", db_index=False, db_constraint=False
    )
    number = models.PositiveSmallIntegerField()
    ended_at = models.DateTimeField()
    milliseconds = models.PositiveIntegerField()
    status_code = models.PositiveSmallIntegerField(null=True, help_text="Of the answer, when there was one.")
    failure = models.CharField(max_length=32, blank=True, help_text="Why it does not count as acknowledged.")
    response = models.BinaryField(help_text="The answer's first 2 KiB.")

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        indexes = [
            # A delivery's attempts.
            models.Index(fields=["delivery", "number"], name="attempt_of_delivery"),
        ]

    def __str__(self) -> str:
        return f"{self.number}: {self.status_code or self.failure}"

    @property
    def answer(self) -> str:
        """The response as text, whatever its bytes are. A character that was cut off at the end is left out."""
        return _decoder("replace").decode(bytes(self.response))


class Recovery(models.Model):
    """A recovery of a webhook that is in progress: what to send it after an outage (`webhooks.recovery`)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = account_column()
    # There are a few rows at a time, each for seconds: an index would not pay.
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="+", db_index=False)
    since = models.DateTimeField()
    until = models.DateTimeField()
    # Places in the feed: the event that was looked at last, and where to stop.
    position = models.BigIntegerField()
    event_id = models.UUIDField()
    stop_at = models.BigIntegerField()

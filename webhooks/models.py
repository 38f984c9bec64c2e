from codecs import getincrementaldecoder
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Func, Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from codservice.accounts.models import Account, account_column
from webhooks.retries import RETRIES

UNANSWERED = timedelta(hours=1)  # until a failure is more than a restart of the receiver


class WebhookQuerySet(QuerySet["Webhook"]):
    def without_secrets(self) -> "WebhookQuerySet":
        """For all but who signs and who encrypts anew: what is not read is not shown by mistake."""
        return self.defer("secret", "previous_secret")

    def unanswered(self) -> "WebhookQuerySet":
        """Those that have answered nothing well for an hour: it is time that the merchant hears of it."""
        return self.filter(deleted_at=None, is_active=True, is_failing=True, failing_since__lte=Now() - UNANSWERED)


class Webhook(models.Model):
    """A merchant's registered URL, and the kinds of events that are sent to it."""

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
    # While its last attempt failed it gets fewer attempts at once, so that it cannot hold what the others need.
    is_failing = models.BooleanField(default=False)
    failing_since = models.DateTimeField(null=True, help_text="While it fails: since when nothing was answered well.")
    # What its account holder was told of that by mail (`webhooks.alarms`).
    is_alarmed = models.BooleanField(default=False, db_default=False, help_text="Was told of it, and not of its end.")
    alarmed_at = models.DateTimeField(null=True, help_text="When the holder was last told that it fails.")
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, help_text="Kept until retention ends, for its log.")

    objects = WebhookQuerySet.as_manager()

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        indexes = [
            # A merchant's list, and who is told of an account's event.
            models.Index(fields=["account", "created_at"], condition=Q(deleted_at=None), name="webhook_of_account"),
        ]

    def __str__(self) -> str:
        return self.url

    @classmethod
    def of(cls, account_id: UUID) -> WebhookQuerySet:
        """The account's own, without secrets: what is deleted is there for the log alone."""
        return cls.objects.without_secrets().filter(account_id=account_id, deleted_at=None)


class Event(models.Model):
    """Something that happened: in the feed (`webhooks.feed`), and what webhooks are told. Its body's bytes are fixed
    when it happens.
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
        PRODUCT_UPDATED = "product.updated"  # its record, also when it is made
        INVENTORY_UPDATED = "inventory.updated"

    PING = "ping"  # a test delivery that a merchant asks for; nothing can be subscribed to it

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # What changed vouches for it; to have the database check the key again would only cost time.
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
    # Given by the database itself (migrations `feed`, `feed_in_order`), also to what is written past `events.publish`;
    # what it is, `webhooks.feed` says.
    position = models.BigIntegerField(
        null=True,
        db_default=Func(function="webhooks_feed_position"),
        help_text="In the feed, before its time and id; none for test deliveries.",
    )

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        indexes = [
            # The feed, kind by kind, and what a recovery goes through.
            models.Index(fields=["account", "kind", "position", "created_at", "id"], name="event_in_feed"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class FeedEra(models.Model):
    """What transactions' numbers are counted from since the database's server was started: the one row there is.

    Written by the function `webhooks_feed_base` of the database alone (migration `feed`). The feed's positions grow
    from start to start, also when a backup is restored to a server whose transactions are numbered anew.
    """

    id = models.SmallIntegerField(primary_key=True)
    server_started_at = models.DateTimeField()
    base = models.BigIntegerField()

    def __str__(self) -> str:
        return str(self.base)


class DeliveryQuerySet(QuerySet["Delivery"]):
    def with_webhook(self) -> "DeliveryQuerySet":
        """Each with its webhook, without secrets."""
        return self.select_related("webhook").defer("webhook__secret", "webhook__previous_secret")


class Delivery(models.Model):
    """One event to one webhook. The pending ones are the queue, `next_attempt_at` its clock (`webhooks.delivery`)."""

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
            # The same of what failed: a handful among many, to be looked at, counted and sent again.
            models.Index(
                fields=["webhook", "-created_at", "-id"], condition=Q(status="failed"), name="delivery_log_failed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.id}"

    @classmethod
    def of(cls, account_id: UUID) -> DeliveryQuerySet:
        """Those to the account's webhooks, as far as these are not deleted."""
        return cls.objects.filter(webhook__account_id=account_id, webhook__deleted_at=None)

    def shown_status(self) -> str:
        """Its status as people and programs see it: what a webhook that is deleted or off has waiting is dropped, also
        before its row says so.
        """
        if self.status != self.Status.PENDING or (self.webhook.deleted_at is None and self.webhook.is_active):
            return self.status
        return self.Status.DROPPED

    @classmethod
    def shown_as(cls, statuses: Sequence[str]) -> Q:
        """Those whose `shown_status` is one of `statuses`."""
        is_ended = Q(webhook__deleted_at__isnull=False) | Q(webhook__is_active=False)
        being_dropped = Q(is_ended, status=cls.Status.PENDING)
        chosen = Q(status__in=statuses)
        if cls.Status.DROPPED in statuses:
            return chosen | being_dropped
        return chosen & ~being_dropped if cls.Status.PENDING in statuses else chosen


class Claim(models.Model):
    """An attempt that is under way, and until when its worker is believed to live.

    A table of its own, with a row only while the attempt lasts: to write claims into the deliveries would add a
    second update, with all its index entries, to each of them.
    """

    delivery = models.OneToOneField(Delivery, on_delete=models.CASCADE, primary_key=True, db_constraint=False)
    webhook = models.ForeignKey(
        Webhook, on_delete=models.CASCADE, related_name="+", db_index=False, db_constraint=False
    )
    token = models.UUIDField(help_text="The claimer's; a result counts only with it.")
    until = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.delivery_id)


_decoder = getincrementaldecoder("utf-8")  # for the rest of a letter it would wait


class Attempt(models.Model):
    """One HTTP POST of a delivery, as it went."""

    account = account_column()
    # Written while the delivery's row is locked; to have the database check the key again would only cost time.
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
        """The response as text, whatever it is; nothing of a letter at whose midst it was cut off."""
        return _decoder("replace").decode(bytes(self.response))


class Recovery(models.Model):
    """What a webhook is to be sent after an outage, while it is gone through (`webhooks.recovery`)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = account_column()
    # A handful of rows at a time, each for seconds: no index is worth its while.
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="+", db_index=False)
    since = models.DateTimeField()
    until = models.DateTimeField()
    # In the feed: the event that was looked at last, and where to stop.
    position = models.BigIntegerField()
    event_id = models.UUIDField()
    stop_at = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.since} – {self.until}"

from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex, GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import MD5, Lower, Now
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from codservice.accounts.actor import Role
from codservice.accounts.models import Account, User, account_column
from inventory.models import Product
from webhooks.models import Event


class Status(models.TextChoices):
    PENDING = "pending_confirmation", _("Pending confirmation")
    CONFIRMED = "confirmed", _("Confirmed")
    CANCELED = "canceled", _("Canceled")
    SHIPPED = "shipped", _("Shipped")
    DELIVERED = "delivered", _("Delivered")
    RETURNED = "returned", _("Returned")


ENDED = (Status.CANCELED, Status.DELIVERED, Status.RETURNED)  # no move leads on from these


class CallState(models.TextChoices):
    """What a pending order waits for; of a decided order, what it last waited for.

    An order of an account's twin has TEST from its import on: nobody is ever called about it, and the console never
    shows it (`Order.live`).
    """

    NEW = "new", _("First call")
    RETRY = "retry", _("Another attempt")
    CALLBACK = "callback", _("Promised call")
    REVIEW = "review", _("A supervisor's review")
    TEST = "test", _("Nobody: a test order")


class DeliveryType(models.TextChoices):
    HOME = "home", _("Home delivery")
    DESK = "desk", _("Stop desk")


class Move(NamedTuple):
    """A row of the table of moves: where the move leads, who may make it, and the event that tells of it."""

    to: Status
    by: frozenset[Role]
    event: Event.Kind


_AGENTS = frozenset({Role.AGENT, Role.SUPERVISOR})
_WAREHOUSE = frozenset({Role.SUPERVISOR, Role.COMMAND})


# The indexed expressions. They are written out, because an index serves no expression with parameters.
PHONE_END_LENGTH = 4
PHONE_END = Func("phone_e164", template="right(%(expressions)s, 4)", output_field=models.CharField())
# Separators become spaces: PostgreSQL would take `M.Benali` for a host, `Dr/Ali` for a file, and count `Ben-Ali` as a
# word too. Accents, alefs and short vowels are folded: whoever hears a name does not know how it is written.
_SEPARATORS = "./@:_&?=<>+-"
_LETTERS = "ÀÂÄÇÈÉÊËÎÏÔÖÙÛÜàâäçèéêëîïñôöùûüأإآٱىةؤئ"
_AS = "AAACEEEEIIOOUUUaaaceeeeiinoouuuاااايهوي"
_UNWRITTEN = "\u0640\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0670"  # tatweel; marks above and below letters
NAME_FOLD = str.maketrans(_LETTERS, _AS, _UNWRITTEN)
_TRANSLATED = f"'{_SEPARATORS}{_LETTERS}{_UNWRITTEN}', '{' ' * len(_SEPARATORS)}{_AS}'"
NAME_WORDS = Func(
    "customer_name",
    template=f"to_tsvector('simple', translate(%(expressions)s, {_TRANSLATED}))",
    output_field=SearchVectorField(),
)


# Written out, so that the partial indexes serve prepared statements too.
IS_LIVE = Func("call_state", template="(%(expressions)s <> 'test')", output_field=models.BooleanField())


def has_phone(phone: str) -> Q:
    """Matches orders with this number (E.164) as their first or second phone; each has its index."""
    return Q(phone_e164=phone) | Q(phone_2_e164=phone)


def numbers_meant(text: str) -> list[str]:
    """The shops' order numbers that people mean by `text`: with or without Shopify's `#`, and in either case.

    One with capitals amid small letters (`ShopOrder7`) is meant only as it is written.
    """
    bare = text.removeprefix("#")
    cases = {bare, bare.upper(), bare.lower(), bare.title()}
    return [f"{mark}{each}" for mark in ("", "#") for each in cases]


class LiveOrders(models.Manager["Order"]):
    """The orders that the call center sees: all but those of accounts' twins.

    Everything that the console reads begins here; its SQL says `call_state <> 'test'`, or which other states it means.
    tests/pages/test_twins.py checks this.
    """

    def get_queryset(self) -> models.QuerySet["Order"]:
        return super().get_queryset().filter(IS_LIVE)


class Order(models.Model):
    """An order that is paid in cash at the door.

    Created by `orders.importing`; changed by `lifecycle` and `shipments`, whose moves `moves` writes, by `editing`
    and by `anonymising`.
    """

    # (status, move) → Move. Moves that are not in the table are refused (docs/architecture.md).
    MOVES = {
        (Status.PENDING, "confirm"): Move(Status.CONFIRMED, _AGENTS, Event.Kind.ORDER_CONFIRMED),
        (Status.PENDING, "cancel"): Move(Status.CANCELED, _AGENTS | {Role.MERCHANT}, Event.Kind.ORDER_CANCELLED),
        (Status.CONFIRMED, "cancel"): Move(
            Status.CANCELED, frozenset({Role.SUPERVISOR, Role.MERCHANT}), Event.Kind.ORDER_CANCELLED
        ),
        (Status.CONFIRMED, "ship"): Move(Status.SHIPPED, _WAREHOUSE, Event.Kind.ORDER_SHIPPED),
        (Status.SHIPPED, "deliver"): Move(Status.DELIVERED, _WAREHOUSE, Event.Kind.ORDER_DELIVERED),
        (Status.SHIPPED, "return"): Move(Status.RETURNED, _WAREHOUSE, Event.Kind.ORDER_RETURNED),
    }

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="orders", db_index=False)
    external_id = models.CharField(max_length=64, null=True, blank=True, help_text="The shop's own order number.")
    status = models.CharField(max_length=20, choices=Status, default=Status.PENDING)
    version = models.PositiveIntegerField(default=1, help_text="Counts the changes.")

    customer_name = models.CharField(max_length=255)
    customer_phone = models.CharField(max_length=40, help_text="As it was sent.")
    phone_e164 = models.CharField("phone (E.164)", max_length=16, help_text="To find and compare it.")
    customer_phone_2 = models.CharField(max_length=40, null=True, blank=True, help_text="As it was sent.")
    phone_2_e164 = models.CharField("second phone (E.164)", max_length=16, null=True, blank=True)
    customer_address = models.CharField(max_length=500)
    customer_wilaya = models.CharField(max_length=255, help_text="As it was sent.")
    wilaya_code = models.CharField(max_length=2)
    customer_commune = models.CharField(max_length=255, blank=True, help_text="As it was sent.")
    commune_code = models.CharField(max_length=4, null=True, blank=True)

    total_amount = models.DecimalField(max_digits=10, decimal_places=2, help_text="DZD")
    shipping_fee = models.DecimalField(max_digits=10, decimal_places=2, default=0, help_text="DZD")
    delivery_type = models.CharField(
        max_length=10, choices=DeliveryType, default=DeliveryType.HOME, db_default=DeliveryType.HOME
    )
    source = models.CharField(max_length=64, null=True, blank=True, help_text="Where the order came from.")
    notes = models.CharField(max_length=2000, blank=True, help_text="The merchant's, for the agent.")
    cancel_reason = models.CharField(max_length=500, blank=True)

    # While the order is pending: when to call its customer, and why then. Planned and served by the agents' desk.
    call_state = models.CharField(max_length=10, choices=CallState, default=CallState.NEW, db_default=CallState.NEW)
    call_due_at = models.DateTimeField(db_default=Now())
    call_attempts = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="Calls that were not answered.")
    callback_agent = models.ForeignKey(
        User,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        help_text="Who promised to call.",
    )

    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True, blank=True)
    canceled_at = models.DateTimeField(null=True, blank=True)
    anonymised_at = models.DateTimeField(
        null=True, blank=True, help_text="When the customer was overwritten (`orders.retention`)."
    )

    objects = models.Manager["Order"]()
    live = LiveOrders()
    now: datetime  # set by `lifecycle.lock`

    class Meta:
        verbose_name = _("order")
        verbose_name_plural = _("orders")
        permissions = [
            ("work_order", "Can call customers and decide orders"),
            ("supervise_order", "Can see all orders"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["account", "external_id"],
                condition=Q(external_id__isnull=False),
                name="one_order_per_external_id",
            ),
            models.CheckConstraint(condition=Q(status__in=Status.values), name="order_status_known"),
            models.CheckConstraint(condition=Q(total_amount__gte=0), name="order_total_not_negative"),
            models.CheckConstraint(condition=Q(shipping_fee__gte=0), name="order_shipping_fee_not_negative"),
        ]
        indexes = [
            # A merchant's list, newest first.
            models.Index(F("account"), F("created_at").desc(), F("id").desc(), name="order_list"),
            # The same with `status`; and, for the desk, an account's pending orders.
            models.Index(
                F("account"), F("status"), F("created_at").desc(), F("id").desc(), name="order_list_by_status"
            ),
            # The same with `wilaya`; counted by the index alone, with `status` or without.
            models.Index(
                fields=["account", "wilaya_code", "-created_at", "-id"], include=["status"], name="order_list_by_wilaya"
            ),
            # What has changed since: `updated_from`, `sort=updated_at`.
            models.Index(F("account"), F("updated_at").desc(), F("id").desc(), name="order_list_by_update"),
            # All orders of a customer, with any merchant: the console, and the list's `phone`.
            models.Index(F("phone_e164"), F("created_at").desc(), name="order_by_phone"),
            # The console's list: one status, over all merchants, oldest or newest first (ids sort by time).
            models.Index(fields=["status", "id"], condition=~Q(call_state=CallState.TEST), name="order_console"),
            # The oldest orders of accounts' twins (`orders.retention`).
            models.Index(fields=["created_at"], condition=Q(call_state=CallState.TEST), name="order_of_twin"),
            # The orders to anonymise next (`orders.retention`).
            models.Index(
                fields=["updated_at"],
                condition=Q(status__in=ENDED, anonymised_at=None),
                name="order_to_anonymise",
            ),
            # The orders with a number as the second one (`has_phone`); most have none.
            models.Index(
                fields=["phone_2_e164"], condition=Q(phone_2_e164__isnull=False), name="order_by_second_phone"
            ),
            # The desk's next customer and its counters, over all merchants.
            models.Index(
                fields=["call_state", "call_due_at", "id"],
                condition=Q(status=Status.PENDING),
                name="order_to_call",
            ),
            # An agent's own promised calls.
            models.Index(
                fields=["callback_agent", "call_due_at"],
                condition=Q(status=Status.PENDING, call_state=CallState.CALLBACK),
                name="order_callback_of_agent",
            ),
            # Possible duplicates: the same address within 24 hours. A digest, because addresses are long.
            models.Index(MD5(Lower("customer_address")), "created_at", name="order_by_address"),
            # The console's search by the last digits of a phone number, and by the beginnings of a name's words.
            models.Index(PHONE_END, name="order_by_phone_end"),
            # A short pending list, so that the import that must sort it into the index does not take long.
            GinIndex(NAME_WORDS, gin_pending_list_limit=512, name="order_by_folded_name"),
            # The console's list of some days. BRIN, because orders are written in the order of their times.
            BrinIndex(fields=["created_at"], autosummarize=True, name="order_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.customer_name} {self.id}"

    @classmethod
    def moves_at(cls, status: str, role: Role) -> set[str]:
        """The names of the moves that this role may make from this status."""
        return {name for (start, name), move in cls.MOVES.items() if start == status and role in move.by}


MAX_LINES, MAX_QUANTITY = 100, 10_000  # of an order, and of a line (docs/orders.md)
MAX_ATTRIBUTES, MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE_VALUE = 20, 64, 255  # of a line's details (docs/orders.md)


class OrderItem(models.Model):
    """A line of an order. Name and price do not follow the catalog."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = account_column()
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="items", db_index=False)
    position = models.PositiveSmallIntegerField()
    # Lines are found by their order. Nothing looks for those of a product, and none is deleted.
    product = models.ForeignKey(
        Product, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    product_name = models.CharField(max_length=255)
    sku = models.CharField("SKU", max_length=64, null=True, blank=True)
    quantity = models.PositiveIntegerField()
    unit_price = models.DecimalField(max_digits=10, decimal_places=2, help_text="DZD")
    attributes = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            # Also the index of an order's lines in their order.
            models.UniqueConstraint(fields=["order", "position"], name="one_item_per_position"),
            models.CheckConstraint(condition=Q(quantity__gte=1), name="item_quantity_positive"),
            models.CheckConstraint(condition=Q(unit_price__gte=0), name="item_price_not_negative"),
        ]

    @property
    def amount(self) -> Decimal:
        return self.quantity * self.unit_price


class StatusChange(models.Model):
    """A move in an order's history. Never changed, but `orders.anonymising` shortens reasons to what has a button."""

    account = account_column()
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="status_changes", db_index=False)
    from_status = models.CharField(max_length=20, choices=Status, null=True)
    to_status = models.CharField(max_length=20, choices=Status)
    at = models.DateTimeField()
    actor = models.CharField(max_length=255, help_text="Who made it, as people read it.")
    user = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False)
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        indexes = [
            # An order's history.
            models.Index(fields=["order", "at"], name="status_change_of_order"),
            # What happened to an account's orders on some days (`orders.daily`, `orders.day_sums`).
            models.Index(fields=["account", "at"], name="status_change_of_account"),
            # The call center's figures of some days. BRIN, because changes are written in the order of their times.
            BrinIndex(fields=["at"], autosummarize=True, name="status_change_by_time"),
        ]


class OrderEdit(models.Model):
    """A field's change in an order before it was confirmed: the old value and the new.

    Never changed, except that `orders.anonymising` and `customer_data` empty the values.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = account_column()
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="edits", db_index=False)
    field = models.CharField(max_length=40, help_text="As the API names it: `customer_address`, `items.0.quantity`.")
    old = models.CharField(max_length=500, blank=True)
    new = models.CharField(max_length=500, blank=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=255, help_text="Who made it, as people read it.")
    user = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False)

    class Meta:
        indexes = [
            # An order's history.
            models.Index(fields=["order", "at"], name="order_edit_of_order"),
            # Phone numbers that an account's orders once had (`orders.customer_data`).
            models.Index(
                fields=["account"],
                condition=Q(field__in=("customer_phone", "customer_phone_2")),
                name="order_edit_of_phone",
            ),
        ]


class CallNote(models.Model):
    """A call to the customer, or a remark about the order."""

    class Outcome(models.TextChoices):
        ANSWERED = "answered", _("Answered")
        NO_ANSWER = "no_answer", _("No answer")
        BUSY = "busy", _("Busy")
        SWITCHED_OFF = "switched_off", _("Switched off")
        WRONG_NUMBER = "wrong_number", _("Wrong number")
        CALLBACK = "callback", _("Call back later")
        HANDED_OVER = "handed_over", _("Handed over")
        SKIPPED = "skipped", _("Skipped")
        NOTE = "note", _("Note only")

    SILENT = (Outcome.NO_ANSWER, Outcome.BUSY, Outcome.SWITCHED_OFF)
    NOTHING_NEW = (*SILENT, Outcome.SKIPPED)  # after these, what an earlier call said of the number still holds
    REACHED = (Outcome.ANSWERED, Outcome.CALLBACK)  # the customer spoke
    # Outcomes of attempts to reach the customer, which are counted as calls everywhere. The others are remarks, or hand
    # the order to a colleague.
    CALLS = [outcome.value for outcome in (Outcome.ANSWERED, *SILENT, Outcome.WRONG_NUMBER, Outcome.CALLBACK)]

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = account_column()
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="call_notes", db_index=False)
    outcome = models.CharField(max_length=20, choices=Outcome)
    note = models.CharField(max_length=2000, blank=True)
    agent = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False)
    agent_name = models.CharField(max_length=255, help_text="As people read it; stays when the user is gone.")
    created_at = models.DateTimeField()
    callback_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            # An order's call history.
            models.Index(fields=["order", "created_at"], name="call_note_of_order"),
            # An account's first calls of some days (`orders.daily`).
            models.Index(fields=["account", "created_at"], name="call_note_of_account"),
            # Which orders of an account have a wrong number (`orders.needs`).
            models.Index(
                fields=["account", "created_at"], condition=Q(outcome="wrong_number"), name="call_note_wrong_number"
            ),
            # The call center's figures of some days. BRIN, because notes are written in the order of their times.
            BrinIndex(fields=["created_at"], autosummarize=True, name="call_note_by_time"),
            # The figures' promised calls.
            models.Index(fields=["callback_at"], condition=Q(callback_at__isnull=False), name="call_note_by_promise"),
        ]


class ShippingFee(models.Model):
    """What an account's customers pay for a delivery to one wilaya; set only by `orders.fees`."""

    id = models.BigAutoField(primary_key=True)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+", db_index=False)
    wilaya_code = models.CharField(max_length=2)
    home = models.DecimalField(max_digits=10, decimal_places=2, null=True, help_text="To the door, in DZD.")
    desk = models.DecimalField(max_digits=10, decimal_places=2, null=True, help_text="To a stop desk, in DZD.")

    class Meta:
        constraints = [
            # Also the index of the list.
            models.UniqueConstraint(fields=["account", "wilaya_code"], name="one_shipping_fee_per_wilaya"),
            models.CheckConstraint(condition=Q(home=None) | Q(home__gte=0), name="shipping_fee_home_not_negative"),
            models.CheckConstraint(condition=Q(desk=None) | Q(desk__gte=0), name="shipping_fee_desk_not_negative"),
            models.CheckConstraint(
                condition=Q(home__isnull=False) | Q(desk__isnull=False), name="shipping_fee_says_something"
            ),
        ]


class Erasure(models.Model):
    """A record that a customer's data was erased on request: by whom, when and in how many orders, but not whose."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="erasures", db_index=False)
    created_at = models.DateTimeField(db_default=Now())
    actor = models.CharField(max_length=255, help_text="Who did it, as people read it.")
    user = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False)
    order_count = models.PositiveIntegerField()

    class Meta:
        indexes = [
            # The account's list, newest first.
            models.Index(F("account"), F("created_at").desc(), F("id").desc(), name="erasure_list"),
        ]


class OrderCount(models.Model):
    """How many orders an account has in each status: the sum of the deltas.

    Triggers on the orders' table append the deltas (migration `count_orders`), so that no way of writing an order
    can forget them, and beat folds them (`orders.counts`). A counter that each import updates would make all imports
    of an account wait for each other; counting the rows would take longer with each order.
    """

    account = account_column()
    status = models.CharField(max_length=20, choices=Status)
    delta = models.IntegerField()

    class Meta:
        indexes = [
            # For sums by the index alone.
            models.Index(fields=["account", "status"], include=["delta"], name="order_count_of_account"),
        ]


class DayFigure(models.Model):
    """What happened to an account's orders on one day in Algeria: to all, or to those of one wilaya, product and so on.

    Written only by `orders.day_sums`; `orders.daily` says what each figure counts.
    """

    class Dimension(models.TextChoices):
        ALL = "all"  # key: empty
        WILAYA = "wilaya"  # its code
        SOURCE = "source"  # empty for orders without one
        PRODUCT = "product"  # its id
        NAME = "name"  # the name of a line without a product
        REASON = "reason"  # why orders were canceled, up to a colon
        WAIT = "wait"  # how long orders waited for their first call: the number of the span in `daily.WAITS`

    id = models.BigAutoField(primary_key=True)
    account = account_column()
    day = models.DateField()
    dimension = models.CharField(max_length=10, choices=Dimension)
    key = models.CharField(max_length=500, blank=True)
    new_count = models.PositiveIntegerField(default=0)
    new_amount = models.DecimalField(max_digits=18, decimal_places=2, default=0, help_text="DZD")
    unit_count = models.PositiveBigIntegerField(default=0, help_text="Pieces in the new orders.")
    confirmed_count = models.PositiveIntegerField(default=0)
    confirmed_amount = models.DecimalField(max_digits=18, decimal_places=2, default=0, help_text="DZD")
    canceled_count = models.PositiveIntegerField(default=0)
    canceled_amount = models.DecimalField(max_digits=18, decimal_places=2, default=0, help_text="DZD")
    refused_count = models.PositiveIntegerField(default=0, help_text="Of the canceled ones, those still unconfirmed.")
    refused_amount = models.DecimalField(max_digits=18, decimal_places=2, default=0, help_text="DZD")
    shipped_count = models.PositiveIntegerField(default=0)
    shipped_amount = models.DecimalField(max_digits=18, decimal_places=2, default=0, help_text="DZD")
    delivered_count = models.PositiveIntegerField(default=0)
    delivered_amount = models.DecimalField(max_digits=18, decimal_places=2, default=0, help_text="DZD")
    returned_count = models.PositiveIntegerField(default=0)
    returned_amount = models.DecimalField(max_digits=18, decimal_places=2, default=0, help_text="DZD")
    first_call_count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            # Also the index for a period by one dimension.
            models.UniqueConstraint(fields=["account", "dimension", "day", "key"], name="one_figure_per_day"),
        ]


class SummedUp(models.Model):
    """The time until which an account's orders are summed up in DayFigure; null if they are not yet."""

    account = models.OneToOneField(Account, on_delete=models.CASCADE, related_name="+", primary_key=True)
    until = models.DateTimeField(null=True)


class ChangedDay(models.Model):
    """A day for which something in the account's orders has changed.

    Triggers append it in the transaction of the change (migration `days`), so that no way of changing an order can
    forget it. Until the day is summed up anew, its figures are read from the rows. Most are appended twice: for the
    account, and without an account for what is summed up over all of them. What only the call center's figures count is
    appended without an account alone.
    """

    account = account_column(null=True)
    day = models.DateField()

    class Meta:
        indexes = [
            # An account's.
            models.Index(fields=["account", "day"], name="changed_day_of_account"),
        ]


class Searchable(models.Model):
    """An account whose orders are indexed for `q` (`orders.trigrams`) up to `through`, or not yet if that is null."""

    account = models.OneToOneField(Account, on_delete=models.CASCADE, related_name="+", primary_key=True)
    through = models.DateTimeField(null=True)


class OrderTrigrams(models.Model):
    """Hashes of all trigrams in an order's name, phone and address; written by `orders.trigrams`.

    No foreign keys, because checking them would write to each order. Deleted orders are noted in SearchChange.
    """

    order_id = models.UUIDField(primary_key=True)
    account = account_column()
    trigrams = ArrayField(models.IntegerField())

    class Meta:
        indexes = [
            # The list's `q`. A worker writes it in bulk; order by order would cost ten times as much.
            GinIndex(fields=["trigrams"], name="order_by_trigrams"),
        ]


class SearchChange(models.Model):
    """An order whose OrderTrigrams may not match its texts; triggers append it (migration `search`)."""

    account = account_column()
    order_id = models.UUIDField()

    class Meta:
        indexes = [
            # An account's.
            models.Index(fields=["account"], name="search_change_of_account"),
        ]

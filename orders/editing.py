"""What is changed in a pending order before it is decided: by an agent who has asked the customer, or by the merchant.

One transaction, under the order's lock; each field's old and new value is written down.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import zip_longest
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from codservice.accounts.actor import Actor
from codservice.errors import Invalid
from codservice.i18n_tags import dinars
from codservice.values import MAX_AMOUNT
from orders.lifecycle import AlreadyDecided, Changed, decided, lock_one
from orders.models import MAX_LINES, CallNote, CallState, Order, OrderEdit, OrderItem, Status
from orders.order_events import told
from webhooks import events
from webhooks.models import Event

MAX_WRITTEN_DOWN = 500  # characters of a value in an OrderEdit
MOST_EDITS = 10_000  # of an order: whoever reads it reads them all
FEW_CHANGES = 10  # which are not so many edits, whatever they change
SECOND_PHONE = ("customer_phone_2", "phone_2_e164")  # an empty text takes it away


class NotEditable(AlreadyDecided):
    """What an order holds is changed while it is pending, and not afterwards."""

    code = "order_not_editable"


@dataclass(slots=True)
class Edit:
    """What an agent, after asking the customer, or the merchant changes in a pending order; None is left as it is.

    The codes belong to the texts beside them, as in an import; an empty second phone takes it away. `quantities` are
    new quantities by item id: 0 removes the line. `line_changes` are other columns of lines, by item id too; `added`
    are lines that come behind them, and `lines`, which the total does not follow, replace all lines: rows as an import
    has them. Without a `total_amount` the total keeps its `discount`; a further one is `discounted`.
    """

    customer_name: str | None = None
    customer_phone: str | None = None
    phone_e164: str | None = None
    customer_phone_2: str | None = None
    phone_2_e164: str | None = None
    customer_address: str | None = None
    customer_wilaya: str | None = None
    wilaya_code: str | None = None
    customer_commune: str | None = None
    commune_code: str | None = None
    delivery_type: str | None = None
    notes: str | None = None
    shipping_fee: Decimal | None = None
    total_amount: Decimal | None = None
    discounted: Decimal = Decimal(0)
    quantities: dict[UUID, int] = field(default_factory=dict)
    line_changes: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    added: list[dict[str, Any]] = field(default_factory=list)
    lines: list[dict[str, Any]] | None = None


class FieldChange(NamedTuple):
    """As an `OrderEdit` names it: `customer_address`, `items.0.quantity`, by where the line stood until then."""

    field: str
    old: Any
    new: Any


def edit(
    order_id: UUID,
    changes: Edit | Callable[[Order], Edit],
    *,
    actor: Actor,
    account_id: UUID | None = None,
    seen_version: int | None = None,
    check: Callable[[Order], None] = lambda order: None,
) -> Order:
    """Change a pending order, and write down each field's old and new value. Nothing different is no change.

    `changes` may be asked of the order as it is locked what they are; `check`, too, is asked then, and refuses by
    raising. Raises NotEditable, also of an order with MOST_EDITS, Changed, and Invalid when no line would be left, or
    more than MAX_LINES, or the total leave its bounds; Order.DoesNotExist outside `account_id`, when that is given.
    """
    with transaction.atomic():
        order = lock_one(order_id, account_id)
        check(order)
        if order.status != Status.PENDING:
            raise decided(order, NotEditable)
        if seen_version not in (None, order.version):
            raise Changed
        if not isinstance(changes, Edit):
            changes = changes(order)
        before = list(order.items.order_by("position"))
        discounted = discount(order, before) + changes.discounted
        line_edits, after = _edit_lines(order, before, changes)
        if changes.lines is not None:
            line_edits += _replace_lines(order, before, changes.lines)
        wanted = [*_edit_fields(order, changes), *_edit_sums(order, after, discounted, changes)]
        written = [change for change in wanted if change.old != change.new]
        for change in written:
            setattr(order, change.field, change.new)
        edits = [*written, *line_edits]
        if not edits:
            return order
        _check_room(order, edits)
        order.updated_at, order.version = order.now, order.version + 1
        planned = _call_again(order) if any(change.field == "phone_e164" for change in written) else []
        order.save(update_fields=[*(change.field for change in written), *planned, "updated_at", "version"])
        _write_down(order, edits, actor)
        events.publish([told(order, Event.Kind.ORDER_UPDATED)])
    return order


def _check_room(order: Order, edits: Sequence[FieldChange]) -> None:
    """Raises NotEditable when its history has no room for these too."""
    if order.version > FEW_CHANGES and OrderEdit.objects.filter(order=order).count() + len(edits) > MOST_EDITS:
        raise NotEditable(_("This order has reached the maximum number of changes. Cancel it and send a new one."))


def _full_price(items: Iterable[OrderItem], shipping_fee: Decimal) -> Decimal:
    return sum((item.amount for item in items), shipping_fee)


def discount(order: Order, items: Iterable[OrderItem]) -> Decimal:
    """How far the order's total is below the full price of its lines; negative when it is above.

    It stays when lines or fee change: a total that nobody writes is their full price less this.
    """
    return _full_price(items, order.shipping_fee) - order.total_amount


def check_total(total: Decimal) -> None:
    """Of a total that follows from something else. Raises Invalid outside its bounds."""
    if not 0 <= total <= MAX_AMOUNT:
        sentence = _("The total would become %(total)s: it must be from 0 to %(most)s.")
        raise Invalid({"total_amount": [sentence % {"total": dinars(total), "most": dinars(MAX_AMOUNT)}]})


def _call_again(order: Order) -> list[str]:
    """The order has a new number. If the one before was wrong, agents call it now, with all its tries, before any
    supervisor has looked at it. The columns that are to be written.
    """
    said = order.call_notes.exclude(outcome__in=CallNote.NOTHING_NEW)
    last = said.order_by("-created_at", "-id").first()
    if order.call_state != CallState.REVIEW or last is None or last.outcome != CallNote.Outcome.WRONG_NUMBER:
        return []
    order.call_state, order.call_due_at, order.call_attempts = CallState.RETRY, order.now, 0
    return ["call_state", "call_due_at", "call_attempts"]


def _write_down(order: Order, edits: Sequence[FieldChange], actor: Actor) -> None:
    OrderEdit.objects.bulk_create(
        OrderEdit(
            account_id=order.account_id,
            order=order,
            field=change.field,
            old=_written_down(change.old),
            new=_written_down(change.new),
            at=order.now,
            actor=actor.name,
            user_id=actor.user_id,
        )
        for change in edits
        if not change.field.endswith("_e164")  # the same number as in the field beside it
    )


def _written_down(value: Any) -> str:
    """As an OrderEdit keeps it, which has not room for everything."""
    text = "" if value is None else str(value)
    return text if len(text) <= MAX_WRITTEN_DOWN else f"{text[: MAX_WRITTEN_DOWN - 1]}…"


_FIELDS = (
    *("customer_name", "customer_phone", "phone_e164", *SECOND_PHONE, "customer_address", "customer_wilaya"),
    *("wilaya_code", "delivery_type", "notes"),
)


def _edit_fields(order: Order, changes: Edit) -> list[FieldChange]:
    """The customer's fields, as they shall be. A wilaya that is changed takes its commune along."""
    given = {name: new for name in _FIELDS if (new := getattr(changes, name)) is not None}
    written = [
        FieldChange(name, getattr(order, name), new or None if name in SECOND_PHONE else new)
        for name, new in given.items()
    ]
    if changes.customer_commune is not None or changes.wilaya_code not in (None, order.wilaya_code):
        commune, code = changes.customer_commune or "", changes.commune_code
        written += [
            FieldChange("customer_commune", order.customer_commune, commune),
            FieldChange("commune_code", order.commune_code, code),
        ]
    return written


def _edit_sums(order: Order, lines: Iterable[OrderItem], discounted: Decimal, changes: Edit) -> list[FieldChange]:
    """The fee and the total, as they shall be; a total that nobody writes follows the lines and the fee."""
    fee = order.shipping_fee if changes.shipping_fee is None else changes.shipping_fee
    total = _full_price(lines, fee) - discounted if changes.total_amount is None else changes.total_amount
    if total != order.total_amount:
        check_total(total)
    return [
        FieldChange("shipping_fee", order.shipping_fee, fee),
        FieldChange("total_amount", order.total_amount, total),
    ]


def _edit_lines(order: Order, before: list[OrderItem], changes: Edit) -> tuple[list[FieldChange], list[OrderItem]]:
    """Write what changes in the lines: each change, and the lines that there are then."""
    if not (changes.quantities or changes.line_changes or changes.added):
        return [], before
    edits: list[FieldChange] = []
    left: list[OrderItem] = []
    for number, item in enumerate(before):
        quantity = changes.quantities.get(item.id, item.quantity)
        wanted = {"quantity": quantity} | (changes.line_changes.get(item.id, {}) if quantity else {})
        changed = {name: value for name, value in wanted.items() if value != getattr(item, name)}
        for name, value in changed.items():
            if name in _LINE:
                old = _said_value(getattr(item, name))
                edits.append(FieldChange(f"items.{number}.{name}", old, _said_value(value)))
            setattr(item, name, value)
        if not quantity:
            item.delete()
            continue
        left.append(item)
        if changed:
            item.save(update_fields=[*changed])
    behind = before[-1].position + 1 if before else 0  # lines that are removed leave gaps
    added = [
        OrderItem(account_id=order.account_id, order=order, position=position, **line)
        for position, line in enumerate(changes.added, behind)
    ]
    edits += [FieldChange(f"items.{number}", None, _said_line(item)) for number, item in enumerate(added, len(before))]
    OrderItem.objects.bulk_create(added)
    after = left + added
    if not after:
        raise Invalid({"items": [_("An order must keep at least one line. Cancel it instead.")]})
    if len(after) > MAX_LINES:
        raise Invalid({"items": [_("An order can have at most %(most)d lines.") % {"most": MAX_LINES}]})
    return edits, after


_LINE = ("product_id", "product_name", "quantity", "unit_price", "attributes")


def _replace_lines(order: Order, before: Sequence[OrderItem], lines: Sequence[Mapping[str, Any]]) -> list[FieldChange]:
    """Write these lines in place of all that are there, if they are others; what is different."""
    after = [
        OrderItem(account_id=order.account_id, order=order, position=position, **line)
        for position, line in enumerate(lines)
    ]
    edits: list[FieldChange] = []
    for number, (old, new) in enumerate(zip_longest(before, after)):
        if old is None or new is None:
            edits.append(FieldChange(f"items.{number}", old and _said_line(old), new and _said_line(new)))
        else:
            edits += [
                FieldChange(f"items.{number}.{name}", _said_value(getattr(old, name)), _said_value(getattr(new, name)))
                for name in _LINE
                if getattr(old, name) != getattr(new, name)
            ]
    if edits:
        OrderItem.objects.filter(order=order).delete()
        OrderItem.objects.bulk_create(after)
    return edits


def _said_line(item: OrderItem) -> str:
    details = f" ({_said_value(item.attributes)})" if item.attributes else ""
    return f"{item.quantity} × {item.product_name}{details}, {item.unit_price}"


def _said_value(value: Any) -> Any:
    return ", ".join(f"{key}: {text}" for key, text in value.items()) if isinstance(value, dict) else value

"""Changes of a pending order, made by the merchant, or by an agent who has asked the customer.

An edit is one transaction under the order's lock, and keeps each field's old and new value.
"""

from collections.abc import Iterable, Mapping, Sequence
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
from codservice.values import MAX_AMOUNT, shortened
from orders.lifecycle import AlreadyDecided, already_decided, check_seen, lock_one
from orders.models import MAX_LINES, CallNote, CallState, Order, OrderEdit, OrderItem, Status
from orders.order_events import told
from webhooks import events
from webhooks.models import Event

MAX_WRITTEN_DOWN = 500  # characters of a value in an OrderEdit
MOST_EDITS = 10_000  # of one order; reading it reads them all
FEW_CHANGES = 10  # so few changes cannot reach MOST_EDITS, whatever they change
SECOND_PHONE = ("customer_phone_2", "phone_2_e164")  # an empty text removes it


class NotEditable(AlreadyDecided):
    """An order can be edited only while it is pending."""

    code = "order_not_editable"


class TooManyEdits(NotEditable):
    """The order has no room for further edits."""

    in_the_way = "edits"


@dataclass(slots=True)
class Edit:
    """Changes of a pending order, by the merchant or by an agent who asked the customer; None leaves a field as it is.

    The codes belong to the texts beside them, as in an import; an empty second phone removes it. `line_changes` maps
    item ids to new columns; a quantity of 0 removes the line. `added` lines are appended. Instead of both, `lines`
    replace all lines. Added lines and these are rows as in an import. A total that is not given is the new full price
    less the `discount`, which is negative where the total is above.
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
    discount: Decimal | None = None
    line_changes: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    added: list[dict[str, Any]] = field(default_factory=list)
    lines: list[dict[str, Any]] | None = None


class FieldChange(NamedTuple):
    """A changed field, named as in `OrderEdit`: `customer_address`, or `items.0.quantity` by the line's old place."""

    field: str
    old: Any
    new: Any


def edit(order_id: UUID, changes: Edit, *, actor: Actor, seen_version: int | None = None) -> Order:
    """Change a pending order, if it still is as `seen_version`. Raises NotEditable, Changed, and what `apply` does."""
    with transaction.atomic():
        order = lock_one(order_id)
        check_pending(order)
        check_seen(order, seen_version)
        apply(order, changes, actor=actor)
    return order


def check_pending(order: Order) -> None:
    """Raise NotEditable if the order has been decided."""
    if order.status != Status.PENDING:
        raise already_decided(order, NotEditable)


def apply(order: Order, changes: Edit, *, actor: Actor) -> None:
    """Change a pending order that the caller's transaction has locked, and keep each field's old and new value.

    If no value differs, nothing is written. Raises TooManyEdits if MOST_EDITS would be exceeded, and Invalid if no line
    or more than MAX_LINES would be left, or the total would leave its bounds; then the transaction must be rolled back.
    """
    before = list(order.items.order_by("position"))
    new_discount = discount(order, before) if changes.discount is None else changes.discount
    line_edits, after = _write_lines(order, before, changes)
    wanted = [*_field_changes(order, changes), *_sum_changes(order, after, new_discount, changes)]
    written = [change for change in wanted if change.old != change.new]
    edits = [*written, *line_edits]
    if not edits:
        return
    _check_room(order, edits)
    for change in written:
        setattr(order, change.field, change.new)
    order.updated_at, order.version = order.now, order.version + 1
    planned = _call_again(order) if any(change.field == "phone_e164" for change in written) else []
    order.save(update_fields=[*(change.field for change in written), *planned, "updated_at", "version"])
    _write_down(order, edits, actor)
    events.publish([told(order, Event.Kind.ORDER_UPDATED)])


def _check_room(order: Order, edits: Sequence[FieldChange]) -> None:
    """Raise TooManyEdits if the order has no room for these edits too."""
    if order.version > FEW_CHANGES and OrderEdit.objects.filter(order=order).count() + len(edits) > MOST_EDITS:
        raise TooManyEdits(_("This order has reached the maximum number of changes. Cancel it and send a new one."))


def _full_price(items: Iterable[OrderItem], shipping_fee: Decimal) -> Decimal:
    return sum((item.amount for item in items), shipping_fee)


def discount(order: Order, items: Iterable[OrderItem]) -> Decimal:
    """How far the order's total is below the full price of its lines and fee; negative if it is above.

    The discount stays when lines or fee change: a total that is not given is the new full price less this.
    """
    return _full_price(items, order.shipping_fee) - order.total_amount


def check_total(total: Decimal) -> None:
    """Check a total that was calculated. Raises Invalid outside its bounds."""
    if not 0 <= total <= MAX_AMOUNT:
        sentence = _("The total would become %(total)s: it must be from 0 to %(most)s.")
        raise Invalid({"total_amount": [sentence % {"total": dinars(total), "most": dinars(MAX_AMOUNT)}]})


def _call_again(order: Order) -> list[str]:
    """Plan a call for an order with a new number, and return the columns to write.

    If the old number was wrong, agents call now, with all their attempts, without waiting for a supervisor's review. A
    remark since then does not change that.
    """
    said = order.call_notes.exclude(outcome__in=(*CallNote.NOTHING_NEW, CallNote.Outcome.NOTE))
    last = said.order_by("-created_at", "-id").first()
    is_reviewed = order.call_state in (CallState.REVIEW, CallState.TEST)  # a test order is, after a wrong number
    if not is_reviewed or last is None or last.outcome != CallNote.Outcome.WRONG_NUMBER:
        return []
    if order.call_state != CallState.TEST:
        order.call_state = CallState.RETRY
    order.call_due_at, order.call_attempts = order.now, 0
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
    """The value as an OrderEdit keeps it, cut to MAX_WRITTEN_DOWN characters."""
    return "" if value is None else shortened(str(value), MAX_WRITTEN_DOWN)


_FIELDS = (
    *("customer_name", "customer_phone", "phone_e164", *SECOND_PHONE, "customer_address", "customer_wilaya"),
    *("wilaya_code", "delivery_type", "notes"),
)


def _field_changes(order: Order, changes: Edit) -> list[FieldChange]:
    """The changes of the order's plain fields. A changed wilaya replaces the commune too."""
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


def _sum_changes(order: Order, lines: Iterable[OrderItem], new_discount: Decimal, changes: Edit) -> list[FieldChange]:
    """The changes of fee and total; a total that is not given follows the lines and the fee."""
    fee = order.shipping_fee if changes.shipping_fee is None else changes.shipping_fee
    total = _full_price(lines, fee) - new_discount if changes.total_amount is None else changes.total_amount
    if total != order.total_amount:
        check_total(total)
    return [
        FieldChange("shipping_fee", order.shipping_fee, fee),
        FieldChange("total_amount", order.total_amount, total),
    ]


def _write_lines(order: Order, before: list[OrderItem], changes: Edit) -> tuple[list[FieldChange], list[OrderItem]]:
    """Write the changes of the lines. Returns these changes, and the lines that the order then has."""
    if changes.lines is not None:
        after = _items(order, changes.lines)
        return _replace_lines(order, before, after), after
    edits, left = _change_lines(before, changes.line_changes)
    behind = before[-1].position + 1 if before else 0  # removed lines leave gaps
    added = _items(order, changes.added, behind)
    edits += [FieldChange(f"items.{number}", None, _said_line(item)) for number, item in enumerate(added, len(before))]
    OrderItem.objects.bulk_create(added)
    after = left + added
    if not after:
        raise Invalid({"items": [_("An order must keep at least one line. Cancel it instead.")]})
    if len(after) > MAX_LINES:
        raise Invalid({"items": [_("An order can have at most %(most)d lines.") % {"most": MAX_LINES}]})
    return edits, after


def _change_lines(
    before: Iterable[OrderItem], line_changes: Mapping[UUID, dict[str, Any]]
) -> tuple[list[FieldChange], list[OrderItem]]:
    """Write the lines' new columns, or remove them. Returns these changes, and the lines that are left."""
    edits: list[FieldChange] = []
    left: list[OrderItem] = []
    for number, item in enumerate(before):
        wanted = line_changes.get(item.id, {})
        if is_removed := wanted.get("quantity") == 0:
            wanted = {"quantity": 0}
        changed = {name: value for name, value in wanted.items() if value != getattr(item, name)}
        for name, value in changed.items():
            if name in _LINE:
                old = _said_value(getattr(item, name))
                edits.append(FieldChange(f"items.{number}.{name}", old, _said_value(value)))
            setattr(item, name, value)
        if is_removed:
            item.delete()
            continue
        left.append(item)
        if changed:
            item.save(update_fields=[*changed])
    return edits, left


# The columns of a line whose changes are kept; `sku` follows the product.
_LINE = ("product_id", "product_name", "quantity", "unit_price", "attributes")


def _items(order: Order, lines: Iterable[Mapping[str, Any]], position: int = 0) -> list[OrderItem]:
    """New lines of the order, from this position on."""
    return [
        OrderItem(account_id=order.account_id, order=order, position=number, **line)
        for number, line in enumerate(lines, position)
    ]


def _replace_lines(order: Order, before: Sequence[OrderItem], after: Sequence[OrderItem]) -> list[FieldChange]:
    """Replace all lines by these, if they differ, and return what is different."""
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

"""What the call screen shows of one customer, read by a fixed number of statements."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from django.db import connection

from agents.desk import claims, scripts
from agents.desk.scripts import Script
from codservice import postgresql
from codservice.accounts.models import Account, User
from codservice.bidi import unturned
from codservice.i18n_tags import listed
from inventory.models import Product
from orders import editing
from orders.cancel_reasons import CancelReason, counted_as
from orders.models import CallNote, Order, OrderEdit, OrderItem, Status, StatusChange
from orders.reading import BELONGING, COLUMNS, LATEST

MOST_EARLIER = 30  # earlier orders on the screen, newest first
MOST_DUPLICATES = 10
MOST_LINES = 10  # of an order that is not chosen: a hundred, with all their details, make a megabyte
MOST_LATEST = 100  # calls, and edits, of an order; the order's own page has all, by pages of this size


@dataclass(frozen=True)
class Duplicate:
    """An order that may be the same: within a day, with the same phone or name and address, and a line in common."""

    id: UUID
    status: Status
    created_at: datetime
    customer_name: str
    account_name: str
    external_id: str


@dataclass
class WholeOrder:
    """An order with everything that belongs to it. Except for the lines, the latest comes first."""

    order: Order
    lines: list[OrderItem]
    call_notes: list[CallNote]
    status_changes: list[StatusChange]
    edits: list[OrderEdit]
    discount: Decimal  # by all lines, also those that `shorten` drops; negative if the total is above
    duplicates: list[Duplicate] = field(default_factory=list)  # those on the screen themselves come first
    scripts: list[Script] = field(default_factory=list)
    has_older: bool = False  # whether there are older calls or edits than those read
    duplicate_numbers: list[int] = field(default_factory=list)  # on the screen, from 1, of those that are on it
    more_lines: int = 0  # the number of lines that are not read

    @property
    def in_short(self) -> str:
        return listed(unturned(f"{line.quantity} × {line.product_name}") for line in self.lines[:MOST_LINES])

    def shorten(self) -> None:
        """Keep only the lines and scripts that an order shows while it is not chosen: the lines up to MOST_LINES, as
        many product scripts, and the merchant's two before these.
        """
        self.more_lines = max(len(self.lines) - MOST_LINES, 0)
        del self.lines[MOST_LINES:], self.scripts[MOST_LINES + 2 :]

    @property
    def elsewhere(self) -> list[Duplicate]:
        """The duplicates that are not on the screen themselves."""
        return self.duplicates[len(self.duplicate_numbers) :]


@dataclass
class Customer:
    """A claimed customer. `earlier` are the latest decided orders."""

    claim_id: UUID
    phone: str
    shown_at: datetime  # by the database's clock
    pending: list[WholeOrder]
    earlier: list[Order]

    @property
    def versions(self) -> dict[UUID, int]:
        """Of the pending orders."""
        return {entry.order.id: entry.order.version for entry in self.pending}

    @property
    def total_amount(self) -> Decimal:
        """Of all pending orders together."""
        return sum((entry.order.total_amount for entry in self.pending), Decimal())

    @cached_property
    def has_one_address(self) -> bool:
        """Whether all pending orders go to one place, which then needs to be shown only once."""
        orders = [entry.order for entry in self.pending]
        places = {(order.customer_address.casefold(), order.wilaya_code, order.commune_code) for order in orders}
        return len(orders) > 1 and len(places) == 1

    @property
    def decided_counts(self) -> list[tuple[Status, int]]:
        """How many of `earlier` each status has, in the order of Status."""
        counts = Counter(order.status for order in self.earlier)
        return [(status, counts[status]) for status in Status if status in counts]

    @property
    def may_have_older(self) -> bool:
        """Whether there may be decided orders besides the `earlier` ones."""
        return len(self.earlier) == MOST_EARLIER

    @property
    def has_duplicates(self) -> bool:
        return any(entry.duplicates for entry in self.pending)


# The orders that a call is about: the first pending ones of the customer with the number `{phone}`, which is SQL too.
# `decisions.note_call` locks the same.
_PENDING = f"""FROM orders_order
    WHERE phone_e164 = {{phone}} AND status = 'pending_confirmation' AND call_state <> 'test'
    ORDER BY id LIMIT {claims.MOST_ORDERS}"""
# The customer's pending orders in full and the latest decided ones. Django would take longer to build and compile such
# a statement than the rest of the screen takes.
_BELONGING = ", ".join(sql.format(order="o.id", most=MOST_LATEST + 1) for sql in (BELONGING | LATEST).values())
_THEIRS = f"""
SELECT {", ".join(f"o.{name}" for name in COLUMNS)},
    a.name, COALESCE(r.script_fr, ''), COALESCE(r.script_ar, ''), whole.*
FROM (
    (SELECT true AS waits, * {_PENDING.format(phone="%(phone)s")})
    UNION ALL
    (SELECT false, * FROM orders_order
        WHERE phone_e164 = %(phone)s AND status <> 'pending_confirmation' AND call_state <> 'test'
        ORDER BY created_at DESC LIMIT %(earlier)s)
) AS o
JOIN accounts_account a ON a.id = o.account_id
LEFT JOIN agents_callingrules r ON r.account_id = a.id
LEFT JOIN LATERAL (
    SELECT ARRAY(
        SELECT jsonb_build_object(
            'id', p.id, 'name', p.name, 'stock_quantity', p.stock_quantity, 'is_active', p.is_active,
            'image_url', p.image_url, 'script', p.script
        ) FROM inventory_product p WHERE p.id IN (SELECT product_id FROM orders_orderitem WHERE order_id = o.id)
    ), {_BELONGING}
) AS whole ON o.waits
ORDER BY o.waits DESC, CASE WHEN o.waits THEN o.id END, o.created_at DESC
"""  # noqa: S608  (our own columns)


def read(claim_id: UUID, *, agent: User) -> Customer | None:
    """The customer, if the agent holds them, with the lease renewed; otherwise None."""
    held = claims.renew_or_read(claim_id, agent=agent)
    if held is None:
        return None
    pending, earlier = _theirs(held.phone)
    found = duplicates([entry.order.id for entry in pending])
    numbers = {entry.order.id: number for number, entry in enumerate(pending, 1)}
    for entry in pending:
        entry.duplicates = sorted(found[entry.order.id], key=lambda other: other.id not in numbers)
        entry.duplicate_numbers = sorted(numbers[other.id] for other in entry.duplicates if other.id in numbers)
    return Customer(claim_id, held.phone, held.now, pending, earlier)


def _theirs(phone: str) -> tuple[list[WholeOrder], list[Order]]:
    """The customer's pending orders, oldest first, and decided orders, newest first."""
    pending, earlier = [], []
    for row in postgresql.rows(_THEIRS, {"phone": phone, "earlier": MOST_EARLIER}):
        order = Order.from_db(connection.alias, COLUMNS, row[: len(COLUMNS)])
        shop, french, arabic, products, *lists = row[len(COLUMNS) :]
        order.account = Account(id=order.account_id, name=shop)
        if order.status != Status.PENDING:
            earlier.append(order)
            continue
        decoded = ([msgspec.json.decode(each) for each in rows] for rows in lists)
        entry = _whole(order, dict(zip(BELONGING, decoded, strict=True)))
        entry.has_older = max(len(entry.call_notes), len(entry.edits)) > MOST_LATEST
        del entry.call_notes[MOST_LATEST:], entry.edits[MOST_LATEST:]
        _add_products(entry.lines, [msgspec.json.decode(each) for each in products])
        entry.scripts = scripts.of_order(order, entry.lines, french=french, arabic=arabic)
        pending.append(entry)
    return pending, earlier


def others(order: Order) -> list[Order]:
    """The customer's other orders, newest first. Empty once the customer is anonymised."""
    theirs = Order.live.filter(phone_e164=order.phone_e164).exclude(id=order.id).exclude(phone_e164="")
    return list(theirs.select_related("account").order_by("-created_at")[:MOST_EARLIER])


class Glance(NamedTuple):
    """How things stand with a held customer."""

    phone: str
    left: timedelta  # until the claim runs out
    versions: dict[UUID, int]  # of the pending orders


_GLANCE = f"""
SELECT c.phone_e164, c.expires_at - statement_timestamp(), o.id, o.version
FROM agents_claim c LEFT JOIN LATERAL (SELECT id, version {_PENDING.format(phone="c.phone_e164")}) AS o ON true
WHERE c.id = %(claim)s AND c.agent_id = %(agent)s AND {claims.UNEXPIRED}
"""  # noqa: S608  (our own conditions)


def glance(claim_id: UUID, *, agent: User) -> Glance | None:
    """How things stand now, by the database's clock, without renewing the lease. None when the agent does not hold the
    customer.

    A handwritten statement, because every open call screen asks every few seconds.
    """
    rows = postgresql.rows(_GLANCE, {"claim": claim_id, "agent": agent.pk})
    return Glance(*rows[0][:2], {id_: version for *_held, id_, version in rows if id_}) if rows else None


def whole(order: Order) -> WholeOrder:
    """An order from `reading.with_detail`. Lists that were not read stay empty."""
    return _whole(order, {name: getattr(order, name, []) for name in BELONGING})


def _whole(order: Order, lists: Mapping[str, list[Any]]) -> WholeOrder:
    """The order with its lists by the names of BELONGING."""
    lines = [
        OrderItem(**{**row, "unit_price": Decimal(row["unit_price"]), "id": UUID(row["id"])})
        for row in lists["detail_items"]
    ]
    return WholeOrder(
        order,
        lines=lines,
        call_notes=[
            CallNote(
                outcome=row["outcome"],
                note=row["note"],
                agent_name=row["agent"],
                created_at=datetime.fromisoformat(row["created_at"]),
                callback_at=row["callback_at"] and datetime.fromisoformat(row["callback_at"]),
            )
            for row in reversed(lists["detail_notes"])
        ],
        status_changes=[
            StatusChange(**{**row, "at": datetime.fromisoformat(row["at"])})
            for row in reversed(lists["detail_history"])
        ],
        edits=[
            OrderEdit(**{**row, "at": datetime.fromisoformat(row["at"])}) for row in reversed(lists["detail_edits"])
        ],
        discount=editing.discount(order, lines),
    )


def _add_products(lines: Sequence[OrderItem], rows: Sequence[dict[str, Any]]) -> None:
    """Set each line's catalog product, which is None where the shop sent no product_id."""
    products = {row["id"]: Product(**row) for row in rows}
    for line in lines:
        if line.product_id:
            line.product = products.get(line.product_id)


# When one of two orders was canceled as a duplicate, or by its merchant, the other is not a duplicate any more.
_STAYS = f"{counted_as('o.cancel_reason')} <> %(duplicate)s"
_DUPLICATES = f"""
WITH mine AS (
    SELECT id, phone_e164, lower(customer_name) AS name, md5(lower(customer_address)) AS address,
        created_at - interval '24 hours' AS since, created_at + interval '24 hours' AS until
    FROM orders_order WHERE id = ANY(%(ids)s) AND status = 'pending_confirmation'
), near AS (
    SELECT mine.id AS of_id, o.id FROM mine JOIN orders_order o
        ON o.phone_e164 = mine.phone_e164 AND o.created_at BETWEEN since AND until
        AND o.call_state <> 'test' AND {_STAYS}
    UNION
    SELECT mine.id AS of_id, o.id FROM mine JOIN orders_order o
        ON md5(lower(o.customer_address)) = mine.address AND o.created_at BETWEEN since AND until
        AND lower(o.customer_name) = mine.name AND o.call_state <> 'test' AND {_STAYS}
), alike AS (
    SELECT near.*, row_number() OVER (PARTITION BY of_id ORDER BY near.id DESC) AS number FROM near
    WHERE near.id <> near.of_id AND EXISTS (
        SELECT FROM orders_orderitem m JOIN orders_orderitem i ON i.order_id = near.id
            AND (i.product_id = m.product_id OR i.sku = m.sku OR lower(i.product_name) = lower(m.product_name))
        WHERE m.order_id = near.of_id
    ) AND NOT EXISTS (
        SELECT FROM orders_statuschange s LEFT JOIN accounts_user u ON u.id = s.user_id
        WHERE s.order_id = near.id AND s.to_status = 'canceled' AND u.is_staff IS NOT TRUE
    )
)
SELECT alike.of_id, o.id, o.status, o.created_at, o.customer_name, a.name, COALESCE(o.external_id, '')
FROM alike JOIN orders_order o ON o.id = alike.id JOIN accounts_account a ON a.id = o.account_id
WHERE alike.number <= %(most)s ORDER BY alike.id DESC
"""  # noqa: S608  (our own condition)


def duplicates(order_ids: Sequence[UUID]) -> dict[UUID, list[Duplicate]]:
    """The latest MOST_DUPLICATES likely duplicates of each of these orders that is still pending.

    An order canceled as a duplicate, or by its merchant, no longer counts.
    """
    found: dict[UUID, list[Duplicate]] = {order_id: [] for order_id in order_ids}
    if found:
        values = {"ids": list(found), "most": MOST_DUPLICATES, "duplicate": CancelReason.DUPLICATE.value}
        for of_id, order_id, status, *rest in postgresql.rows(_DUPLICATES, values):
            found[of_id].append(Duplicate(order_id, Status(status), *rest))
    return found

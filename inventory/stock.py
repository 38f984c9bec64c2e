"""All ways to change stock: the API's bulk update, and products that are created or imported (`catalog`).

One statement writes the products and, where stock changes, their `StockMovement`s. For a bulk update
(`set_quantities`) it also locks and publishes, and is its own transaction. `write` is part of its caller's transaction,
in which the events follow: `inventory.updated` for stock, and `product.updated` for a product that was created or
whose record changed.

Products are locked by primary key before anything is decided, so that decisions still hold when they are written, and
two callers wait for each other instead of deadlocking. The locks are FOR NO KEY UPDATE, so that they do not conflict
with those of an import, whose order lines lock their products' keys in the lines' order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from msgspec import Meta, Struct
from uuid_utils.compat import uuid7

from codservice import postgresql
from codservice.accounts.actor import Actor
from codservice.wire import Id, dump_json
from webhooks import events
from webhooks.events import Told
from webhooks.models import Event

# --- Bulk updates ------------------------------------------------------------------------------------------------


class Reason(StrEnum):
    """Why an entry of a bulk update changes nothing, as its code on the wire."""

    NOT_FOUND = "not_found"
    INVALID_QUANTITY = "invalid_quantity"
    INVALID_ENTRY = "invalid_entry"
    DUPLICATE = "duplicate"
    IDENTITY_MISMATCH = "identity_mismatch"
    STALE = "stale"


class Refusal(NamedTuple):
    """Why an entry changes nothing; `fields` has a message for each wrong field ("" for the whole entry)."""

    reason: Reason
    fields: dict[str, str]


@dataclass(slots=True)
class Update:
    """An entry: set the stock of the product that `sku`, `id` or both name to `quantity`, from 0 to MAX_QUANTITY.

    With `expected_quantity`, only if that is its stock now. An entry with a `refusal` is not applied, but still counts
    as the first entry of a product it names: which of two contradictory entries was meant?
    """

    quantity: int = 0
    sku: str | None = None
    id: UUID | None = None
    expected_quantity: int | None = None
    refusal: Refusal | None = None


class Updated(NamedTuple):
    """A product that an entry was applied to."""

    id: UUID
    sku: str
    stock_quantity: int


class Result(NamedTuple):
    """What became of each entry, by its index, which is in exactly one of the two."""

    updated: dict[int, Updated]
    errors: dict[int, Refusal]


def set_quantities(account_id: UUID, updates: Sequence[Update], *, actor: Actor) -> Result:
    """Apply those of `updates` that can be applied; the others change nothing and are in the result's `errors`.

    One statement, which outside a larger transaction is its own commit, however many updates there are and whatever is
    wrong with them. Each applied update, even one that leaves the quantity the same, writes a movement and an event,
    dated by the database and not before the product's last change.
    """
    skus = [update.sku for update in updates if update.sku is not None]
    ids = [update.id for update in updates if update.id is not None]
    products = _apply(account_id, updates, skus, ids, actor) if skus or ids else []
    catalog: dict[str | UUID, _Named] = {product.sku: product for product in products}
    catalog |= {product.id: product for product in products}
    result = Result({}, {})
    for index, update in enumerate(updates):
        found = [catalog.get(name) for name in (update.sku, update.id) if name is not None]
        product = found[0] if found else None
        if product and product.is_changed and product.entry == index:
            result.updated[index] = Updated(product.id, product.sku, update.quantity)
        else:
            result.errors[index] = update.refusal or _refusal(index, update, found)
    return result


def _refusal(index: int, update: Update, found: "list[_Named | None]") -> Refusal:
    """Why a readable update was not applied; `found` are the products that its names stand for."""
    name = "id" if update.sku is None else "sku"
    if (product := next(filter(None, found), None)) is None:
        return Refusal(Reason.NOT_FOUND, {name: f"No product of this account has this {name}."})
    if found[0] is not found[-1]:
        return Refusal(Reason.IDENTITY_MISMATCH, {"id": "Is not the id of a product with this sku."})
    if product.entry != index:
        return Refusal(Reason.DUPLICATE, {name: "An earlier entry is for the same product."})
    return Refusal(Reason.STALE, {"expected_quantity": f"The stock is {product.old_quantity} now."})


class _Named(NamedTuple):
    """A product that some update names by sku or id, with its stock before.

    `entry` is the first update that names it and no other product, and `is_changed` is whether that one was applied.
    """

    id: UUID
    sku: str
    old_quantity: int
    entry: int | None
    is_changed: bool | None


class StockEvent(Struct):
    """The `data` of `inventory.updated`."""

    product_id: Id
    sku: str
    old_quantity: Annotated[int, Meta(ge=0)]
    new_quantity: Annotated[int, Meta(ge=0)]


# Each product is looked up by an index. Otherwise, before PostgreSQL has statistics of an account, it would expect so
# few products that it would read them all.
# A product that was changed while we waited for its lock is seen as it is now (READ COMMITTED), in `product` and in
# `changed`. The clock is read once all locks are held. Of movements, the statement sees only those from before it
# waited, so a product's last change is known by its `updated_at`.
_APPLY = f"""
WITH sent AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(updates)s::json) AS sent(
        entry int, sku text, id uuid, quantity int, expected_quantity int, is_refused boolean, event_id uuid)
), asked AS (
    SELECT next.id FROM unnest(%(skus)s::text[]) AS asked (sku) CROSS JOIN LATERAL (
        SELECT id, sku FROM inventory_product WHERE account_id = %(account)s AND sku >= asked.sku ORDER BY sku LIMIT 1
    ) AS next WHERE next.sku = asked.sku
    UNION ALL
    SELECT id FROM (SELECT id, account_id FROM inventory_product WHERE id = ANY(%(ids)s::uuid[]) OFFSET 0) AS theirs
    WHERE account_id = %(account)s
), product AS MATERIALIZED (
    SELECT id, sku, stock_quantity, updated_at FROM inventory_product WHERE id = ANY(ARRAY(SELECT id FROM asked))
    ORDER BY id FOR NO KEY UPDATE
), clock AS MATERIALIZED (
    SELECT at, {events.TIME_AS_JSON} AS said FROM (
        SELECT greatest(clock_timestamp(), max(updated_at)) AS at FROM product) AS now
), named AS (
    SELECT sent.*, product.id AS product_id FROM sent JOIN product USING (sku) WHERE (sent.id = product.id) IS NOT FALSE
    UNION ALL
    SELECT sent.*, product.id FROM sent JOIN product USING (id) WHERE sent.sku IS NULL
), first AS MATERIALIZED (
    SELECT DISTINCT ON (product.id) product.id AS product_id, product.sku, stock_quantity AS old_quantity,
        quantity AS new_quantity, entry, event_id,
        NOT is_refused AND coalesce(expected_quantity = stock_quantity, true) AS is_changed
    FROM named JOIN product ON product.id = product_id ORDER BY product.id, entry
), changed AS (
    UPDATE inventory_product p SET stock_quantity = first.new_quantity, updated_at = clock.at
    FROM first, clock WHERE p.id = product_id AND is_changed
), moved AS (
    INSERT INTO inventory_stockmovement (account_id, product_id, old_quantity, new_quantity, at, actor, user_id)
    SELECT %(account)s, product_id, old_quantity, new_quantity, clock.at, %(actor)s, %(user)s::uuid
    FROM first, clock WHERE is_changed
), told AS MATERIALIZED (
    SELECT event_id AS id, %(account)s::uuid AS account_id, '{Event.Kind.INVENTORY_UPDATED}' AS kind, clock.at,
        '{{"event":"{Event.Kind.INVENTORY_UPDATED}","timestamp":' || clock.said
        || ',"data":' || row_to_json(data) || '}}' AS body
    FROM first CROSS JOIN clock CROSS JOIN LATERAL (SELECT {", ".join(StockEvent.__struct_fields__)}) AS data
    WHERE is_changed
), {events.STEPS}
SELECT (SELECT count(*) FROM delivery), product.id, product.sku, stock_quantity, entry, is_changed
FROM product LEFT JOIN first ON product_id = product.id
"""  # noqa: S608  (our own text)


def _apply(
    account_id: UUID, updates: Sequence[Update], skus: Sequence[str], ids: Sequence[UUID], actor: Actor
) -> list[_Named]:
    """Write what can be applied. Returns each product that `skus` or `ids` name, as it was when it was locked."""
    sent = [
        {
            "entry": index,
            "sku": update.sku,
            "id": update.id,
            "quantity": update.quantity,
            "expected_quantity": update.expected_quantity,
            "is_refused": update.refusal is not None,
            "event_id": uuid7(),
        }
        for index, update in enumerate(updates)
    ]
    parameters: dict[str, Any] = {"updates": dump_json(sent).decode(), "account": account_id, "skus": skus, "ids": ids}
    rows = postgresql.rows(_APPLY, parameters | {"actor": actor.name, "user": actor.user_id} | events.parameters())
    products = [_Named(*row) for _, *row in rows]
    if count := sum(product.is_changed is True for product in products):
        events.after_writing({Event.Kind.INVENTORY_UPDATED: count}, deliveries=rows[0][0])
    return products


# --- For the catalog -----------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Change:
    """A product as it is to be: created (`is_new`, which is an edit too), its record changed (`is_edited`), its stock
    changed, or nothing of these.
    """

    id: UUID
    sku: str
    old_quantity: int
    new_quantity: int
    name: str
    price: Decimal
    is_active: bool
    image_url: str
    script: str
    is_new: bool
    is_edited: bool

    @property
    def differs(self) -> bool:
        return self.is_edited or self.new_quantity != self.old_quantity


class ProductEvent(Struct):
    """The `data` of `product.updated`: the product as the inventory lists it."""

    id: Id
    name: str
    sku: str
    stock_quantity: Annotated[int, Meta(ge=0)]
    price: Annotated[str, Meta(description="DZD, with two decimal places.")]
    is_active: bool


# The rows travel as JSON, whose numbers PostgreSQL reads as exact decimals. `clock` is read while the locks are held,
# and so is later than the last change, unless the server's clock was set back meanwhile: hence `greatest`.
_WRITE = """
WITH change AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(changes)s::json) AS c(
        id uuid, sku text, name text, price numeric, is_active boolean, image_url text, script text,
        old_quantity int, new_quantity int, is_new boolean)
), clock AS MATERIALIZED (
    SELECT greatest(clock_timestamp(), max(p.updated_at)) AS at
    FROM change LEFT JOIN inventory_product p ON p.id = change.id
), made AS (
    INSERT INTO inventory_product
        (id, account_id, sku, name, price, stock_quantity, is_active, image_url, script, created_at, updated_at)
    SELECT c.id, %(account)s, c.sku, c.name, c.price, c.new_quantity, c.is_active, c.image_url, c.script, clock.at,
        clock.at
    FROM change c, clock WHERE c.is_new
), changed AS (
    UPDATE inventory_product p SET
        name = c.name, price = c.price, is_active = c.is_active, image_url = c.image_url, script = c.script,
        stock_quantity = c.new_quantity, updated_at = clock.at
    FROM change c, clock WHERE p.id = c.id AND NOT c.is_new
), moved AS (
    INSERT INTO inventory_stockmovement (account_id, product_id, old_quantity, new_quantity, at, actor, user_id)
    SELECT %(account)s, c.id, c.old_quantity, c.new_quantity, clock.at, %(actor)s, %(user)s::uuid
    FROM change c, clock WHERE c.new_quantity <> c.old_quantity
)
SELECT at FROM clock
"""


def write(account_id: UUID, changes: Sequence[Change], *, actor: Actor) -> None:
    """Write changes that differ from what there is, with their movements and events, in the caller's transaction.

    It holds the locks of the account and of the products.
    """
    parameters: dict[str, Any] = {"changes": dump_json(changes).decode(), "account": account_id}
    (at,) = postgresql.row(_WRITE, parameters | {"actor": actor.name, "user": actor.user_id})
    events.publish([told for change in changes for told in _told(account_id, change, at)])


def _told(account_id: UUID, change: Change, at: datetime) -> Iterator[Told]:
    if change.is_edited:
        price = f"{change.price:.2f}"
        record = ProductEvent(change.id, change.name, change.sku, change.new_quantity, price, change.is_active)
        yield Told(account_id, Event.Kind.PRODUCT_UPDATED, record, at)
    if change.new_quantity != change.old_quantity:
        moved = StockEvent(change.id, change.sku, change.old_quantity, change.new_quantity)
        yield Told(account_id, Event.Kind.INVENTORY_UPDATED, moved, at)

"""Every way stock changes: the API's bulk update, and products that are made or imported (`catalog`).

Each function is one transaction, or part of its caller's, and each change of a product goes through one statement
(`write`): the product and, when its stock changes, its `StockMovement`; the events follow in the same transaction,
`inventory.updated` of stock, and `product.updated` when a product was made or its record changed.
Products are locked by primary key before anything is decided, so that what is decided is still true when it is
written, and so that two callers wait for each other instead of dying of a deadlock. The locks are FOR NO KEY UPDATE:
the lines of an order that is being imported hold locks on their products' keys, in the lines' order, and shall not
meet these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, NamedTuple, TypeVar
from uuid import UUID

from django.db import connection, transaction
from msgspec import Meta, Struct

from codservice.accounts.actor import Actor
from codservice.wire import Id, dump_json
from webhooks import events
from webhooks.models import Event

# --- Bulk updates ------------------------------------------------------------------------------------------------


class Reason(StrEnum):
    """Why an entry of a bulk update changes nothing: its code on the wire."""

    NOT_FOUND = "not_found"
    INVALID_QUANTITY = "invalid_quantity"
    INVALID_ENTRY = "invalid_entry"
    DUPLICATE = "duplicate"
    IDENTITY_MISMATCH = "identity_mismatch"
    STALE = "stale"


class Refusal(NamedTuple):
    """Why an entry changes nothing; `fields` has a sentence for each of its fields that is wrong ("": all of it)."""

    reason: Reason
    fields: dict[str, str]


@dataclass(slots=True)
class Update:
    """One entry: the product that `sku`, `id` or both name shall have `quantity`, from 0 to MAX_QUANTITY.

    With `expected_quantity` only if that is its stock now. An entry that came with a `refusal` is not applied, but
    when it names a product it is that product's entry: which of two contradictory ones was meant?
    """

    quantity: int = 0
    sku: str | None = None
    id: UUID | None = None
    expected_quantity: int | None = None
    refusal: Refusal | None = None


class Changed(NamedTuple):
    """A product that an entry was applied to."""

    id: UUID
    sku: str
    stock_quantity: int


class Result(NamedTuple):
    """What became of each entry, by its index: it is in exactly one of the two."""

    updated: dict[int, Changed]
    errors: dict[int, Refusal]


def set_quantities(account_id: UUID, updates: Sequence[Update], *, actor: Actor) -> Result:
    """Apply those of `updates` that can be applied; the others change nothing and are in the result's `errors`.

    One transaction of five statements, BEGIN, COMMIT and the events' insert included, however many updates there
    are and whatever is wrong with them. Each that is applied, also one that sets the number that was there, writes
    a movement and an event, dated by the database and not before its product's last movement.
    """
    skus = [update.sku for update in updates if update.sku is not None]
    ids = [update.id for update in updates if update.id is not None]
    if not skus and not ids:
        return _decide(updates, {})
    with transaction.atomic():
        known = lock(_Known, account_id, skus=skus, ids=ids)
        catalog: dict[str | UUID, _Known] = {product.sku: product for product in known}
        result = _decide(updates, catalog | {product.id: product for product in known})
        changes = [
            Change(done.id, done.sku, catalog[done.sku].stock_quantity, done.stock_quantity, is_moved=True)
            for done in result.updated.values()
        ]
        if changes:
            write(account_id, changes, actor=actor)
    return result


def _decide(updates: Sequence[Update], catalog: "dict[str | UUID, _Known]") -> Result:
    """What becomes of each update, when `catalog` has the products by sku and by id as they are now."""
    result, taken = Result({}, {}), set[UUID]()
    for index, update in enumerate(updates):
        found = [catalog.get(name) for name in (update.sku, update.id) if name is not None]
        refusal = update.refusal or _misnamed(update, found) or _inapplicable(update, found[0], taken)
        if found and found[0] is not None and found[0] is found[-1]:
            taken.add(found[0].id)
        if refusal is not None:
            result.errors[index] = refusal
        else:
            result.updated[index] = Changed(found[0].id, found[0].sku, update.quantity)  # type: ignore[union-attr]
    return result


def _misnamed(update: Update, found: "list[_Known | None]") -> Refusal | None:
    """The refusal of an update that does not name one product; what its names stand for is `found`."""
    name = "id" if update.sku is None else "sku"
    if not any(found):
        return Refusal(Reason.NOT_FOUND, {name: f"No product of this account has this {name}."})
    if found[0] is not found[-1]:
        return Refusal(Reason.IDENTITY_MISMATCH, {"id": "It is not the id of the product with this sku."})
    return None


def _inapplicable(update: Update, product: "_Known | None", taken: set[UUID]) -> Refusal | None:
    assert product is not None, "an update that names no product is refused before"  # noqa: S101  (a fault of ours)
    if product.id in taken:
        name = "id" if update.sku is None else "sku"
        return Refusal(Reason.DUPLICATE, {name: "An entry before this one is for the same product."})
    if update.expected_quantity not in (None, product.stock_quantity):
        return Refusal(Reason.STALE, {"expected_quantity": f"The stock is {product.stock_quantity} now."})
    return None


# --- What both do ------------------------------------------------------------------------------------------------


class _Known(NamedTuple):
    """A product that is there, as it is while we hold its lock."""

    id: UUID
    sku: str
    stock_quantity: int


@dataclass(slots=True)
class Change:
    """A product to make (`is_new`) or to change; of its record, None is no change.

    With `is_moved` it gets a movement and its event, with `is_edited`, which needs its name, price and activity, the
    event of its record.
    """

    id: UUID
    sku: str
    old_quantity: int
    new_quantity: int
    is_moved: bool
    is_new: bool = False
    is_edited: bool = False
    name: str | None = None
    price: Decimal | None = None
    is_active: bool | None = None
    image_url: str | None = None
    script: str | None = None


class StockEvent(Struct):
    """What `inventory.updated` tells: its `data`."""

    product_id: Id
    sku: str
    old_quantity: Annotated[int, Meta(ge=0)]
    new_quantity: Annotated[int, Meta(ge=0)]


class ProductEvent(Struct):
    """What `product.updated` tells: its `data`, the product as the inventory lists it."""

    id: Id
    name: str
    sku: str
    stock_quantity: Annotated[int, Meta(ge=0)]
    price: Annotated[str, Meta(description="DZD, with two places.")]
    is_active: bool


# A row that was changed while we waited for its lock comes as it is now (READ COMMITTED), and ids do not change: the
# order of the locks is the order of the ids. Arrays, so that any number of names is the same prepared statement.
_LOCK = """
SELECT {columns} FROM inventory_product
WHERE account_id = %s AND (sku = ANY(%s::text[]) OR id = ANY(%s::uuid[]))
ORDER BY id FOR NO KEY UPDATE
"""

Known = TypeVar("Known", bound=NamedTuple)


def lock(kind: type[Known], account_id: UUID, *, skus: Sequence[str], ids: Sequence[UUID] = ()) -> list[Known]:
    """Those of the account's products that have one of the names, locked until the transaction ends.

    `kind` says which columns are read.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK.format(columns=", ".join(kind._fields)), [account_id, list(skus), list(ids)])
        return [kind(*row) for row in cursor.fetchall()]


# The rows travel as JSON, whose numbers PostgreSQL reads as exact decimals. `clock` is read when the locks are held,
# so it is later than the last movement unless the server's clock was set back meanwhile: hence the look at that one.
# New products come sorted by sku: whoever else makes the same ones does it in the same order.
_WRITE = """
WITH change AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(changes)s::json) AS c(
        id uuid, sku text, name text, price numeric, is_active boolean, image_url text, script text,
        old_quantity int, new_quantity int, is_moved boolean, is_new boolean)
), clock AS MATERIALIZED (
    SELECT greatest(clock_timestamp(), max(last.at)) AS at FROM change LEFT JOIN LATERAL (
        SELECT at FROM inventory_stockmovement WHERE product_id = change.id AND NOT change.is_new
        ORDER BY id DESC LIMIT 1
    ) last ON true
), made AS (
    INSERT INTO inventory_product
        (id, account_id, sku, name, price, stock_quantity, is_active, image_url, script, created_at, updated_at)
    SELECT c.id, %(account)s, c.sku, c.name, c.price, c.new_quantity, c.is_active, c.image_url, c.script, clock.at,
        clock.at
    FROM change c, clock WHERE c.is_new
    ON CONFLICT (account_id, sku) DO NOTHING
    RETURNING id
), changed AS (
    UPDATE inventory_product p SET
        name = coalesce(c.name, p.name),
        price = coalesce(c.price, p.price),
        is_active = coalesce(c.is_active, p.is_active),
        image_url = coalesce(c.image_url, p.image_url),
        script = coalesce(c.script, p.script),
        stock_quantity = c.new_quantity,
        updated_at = greatest(clock.at, p.updated_at)
    FROM change c, clock WHERE p.id = c.id AND NOT c.is_new
), moved AS (
    INSERT INTO inventory_stockmovement (account_id, product_id, old_quantity, new_quantity, at, actor, user_id)
    SELECT %(account)s, c.id, c.old_quantity, c.new_quantity, clock.at, %(actor)s, %(user)s::uuid
    FROM change c, clock WHERE c.is_moved AND (NOT c.is_new OR c.id IN (SELECT id FROM made))
)
SELECT at, ARRAY(SELECT sku FROM change WHERE is_new AND id NOT IN (SELECT id FROM made)) FROM clock
"""


def write(account_id: UUID, changes: list[Change], *, actor: Actor) -> set[str]:
    """Write the changes with their movements and events, in the caller's transaction, which holds the products' locks.

    Gives the SKUs of new products that somebody else has made since the locks were taken: nothing is written of them.
    """
    changes.sort(key=lambda change: (change.is_new, change.sku if change.is_new else ""))
    with connection.cursor() as cursor:
        cursor.execute(
            _WRITE,
            {
                "changes": dump_json(changes).decode(),
                "account": account_id,
                "actor": actor.name,
                "user": actor.user_id,
            },
        )
        at, taken = cursor.fetchone()
    beaten = set(taken)
    _publish(account_id, [change for change in changes if change.sku not in beaten], at)
    return beaten


def _publish(account_id: UUID, changes: list[Change], at: datetime) -> None:
    if edited := [_product_event(change) for change in changes if change.is_edited]:
        events.publish_all(account_id, Event.Kind.PRODUCT_UPDATED, data=edited, at=at)
    if moved := [change for change in changes if change.is_moved]:
        data = [StockEvent(each.id, each.sku, each.old_quantity, each.new_quantity) for each in moved]
        events.publish_all(account_id, Event.Kind.INVENTORY_UPDATED, data=data, at=at)


def _product_event(change: Change) -> ProductEvent:
    name, price, is_active = change.name, f"{change.price:.2f}", change.is_active
    return ProductEvent(change.id, name, change.sku, change.new_quantity, price, is_active)  # type: ignore[arg-type]

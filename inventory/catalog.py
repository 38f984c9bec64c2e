"""All ways to create products and change their records: by SKU, which itself never changes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _
from uuid_utils.compat import uuid7

from codservice import postgresql
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from codservice.errors import Refused
from inventory import stock


class Choice(NamedTuple):
    """Some of an account's products, chosen by what another room knows of them: a label for people, and their ids."""

    label: Any
    ids: Callable[[Account], list[UUID]]


# By their name in the list's address, as `only`. Apps add theirs when they are ready.
CHOICES: dict[str, Choice] = {}


@dataclass(slots=True)
class Draft:
    """A product as it is to be; None leaves a field as it is.

    A new product must have a name and a price; for it, None means no stock, active, and empty texts.
    """

    sku: str
    name: str | None = None
    price: Decimal | None = None
    stock_quantity: int | None = None
    is_active: bool | None = None
    image_url: str | None = None
    script: str | None = None


class Record(NamedTuple):
    """A product's fields besides its SKU and stock."""

    name: str
    price: Decimal
    is_active: bool
    image_url: str
    script: str


class Done(StrEnum):
    """What became of a draft."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class Saved(NamedTuple):
    """A product as it is now, and what was done to it."""

    id: UUID
    sku: str
    stock_quantity: int
    done: Done


class Exists(Refused):
    """The product already exists; `as_drafted` is its id if its record is the same, as after a first press of two."""

    code = "product_exists"

    def __init__(self, as_drafted: UUID | None) -> None:
        self.as_drafted = as_drafted
        super().__init__(_("A product with this SKU already exists."))


def make(account_id: UUID, draft: Draft, *, actor: Actor) -> Saved:
    """Create a product. Raises Exists, with nothing changed, if the account already has one with this SKU."""
    with transaction.atomic():
        (saved,) = save(account_id, [draft], actor=actor, sets_stock=False)
        if saved.done is not Done.CREATED:
            raise Exists(saved.id if saved.done is Done.UNCHANGED else None)
    return saved


def save(account_id: UUID, drafts: Sequence[Draft], *, actor: Actor, sets_stock: bool) -> list[Saved]:
    """Create the products that the account does not have yet, by SKU, and change those that are not as drafted.

    Returns what became of each draft, in their order; each must have a SKU of its own. Without `sets_stock`, a draft's
    stock counts only for a new product. Changed stock, also a new product's from 0, gets a movement and an event; a
    product that is created, or whose record changes, gets an event. What is unchanged writes nothing.

    One transaction of six statements at most, BEGIN and COMMIT included, however many drafts there are. Concurrent
    calls for an account wait for each other, so that two create each product once, and cannot deadlock over it.
    """
    if not drafts:
        return []
    with transaction.atomic():
        Account.lock(account_id)
        known = _lock(account_id, [draft.sku for draft in drafts])
        changes = [_change(draft, known.get(draft.sku), sets_stock) for draft in drafts]
        if written := [change for change in changes if change.differs]:
            stock.write(account_id, written, actor=actor)
    return [_saved(change) for change in changes]


def lock_all(account_id: UUID) -> None:
    """Lock all products of the account until the transaction ends, before several calls of `save` within it.

    Each call locks its own products by primary key, but several calls together would lock them out of order.
    """
    Account.lock(account_id)
    locked = "SELECT FROM inventory_product WHERE account_id = %s ORDER BY id FOR NO KEY UPDATE"
    postgresql.execute(f"SELECT count(*) FROM ({locked}) locked", [account_id])  # noqa: S608  (our own text)


class _Known(NamedTuple):
    """An existing product, as it is while we hold its lock."""

    id: UUID
    sku: str
    stock_quantity: int
    record: Record


# A row that was changed while we waited for its lock is returned as it is now (READ COMMITTED). Ids do not change, so
# rows are locked in the order of their ids. An array, so that any number of SKUs is the same prepared statement.
_LOCK = f"""
SELECT id, sku, stock_quantity, {", ".join(Record._fields)} FROM inventory_product
WHERE account_id = %s AND sku = ANY(%s::text[]) ORDER BY id FOR NO KEY UPDATE
"""  # noqa: S608  (our own columns)


def _lock(account_id: UUID, skus: list[str]) -> dict[str, _Known]:
    """Lock the account's products with these SKUs until the transaction ends, and return them by SKU."""
    return {
        sku: _Known(id_, sku, in_stock, Record(*record))
        for id_, sku, in_stock, *record in postgresql.rows(_LOCK, [account_id, skus])
    }


_NEW = Record._make((None, None, True, "", ""))  # defaults of a new product; its draft has name and price


def _change(draft: Draft, known: _Known | None, sets_stock: bool) -> stock.Change:
    """The change that makes the product as drafted; one that changes nothing if it already is."""
    before = known.record if known else _NEW
    record = before._replace(**{name: new for name in Record._fields if (new := getattr(draft, name)) is not None})
    if known is None:
        return stock.Change(uuid7(), draft.sku, 0, draft.stock_quantity or 0, *record, is_new=True, is_edited=True)
    old = known.stock_quantity
    new = draft.stock_quantity if sets_stock and draft.stock_quantity is not None else old
    return stock.Change(known.id, draft.sku, old, new, *record, is_new=False, is_edited=record != before)


def _saved(change: stock.Change) -> Saved:
    done = Done.CREATED if change.is_new else Done.UPDATED if change.differs else Done.UNCHANGED
    return Saved(change.id, change.sku, change.new_quantity, done)

"""One customer's data, by phone number: found, exported, and erased when the customer asks for it (law 18-07).

A customer is a phone number, the first or the second of an order. A live account's twin is always included: somebody
may have tried the API with a real customer's order.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from msgspec import structs
from uuid_utils.compat import uuid7

from codservice import postgresql
from codservice.accounts import security_log
from codservice.accounts.actor import Actor
from codservice.accounts.key_format import LIVE, TEST
from codservice.accounts.models import Account
from codservice.accounts.security_log import Action
from codservice.api import idempotency
from codservice.errors import Refused
from codservice.long_lists import batches_by
from codservice.uploads.models import RefusedRow, Upload
from codservice.wire import dump_json
from orders import anonymising, bodies, phones
from orders.models import ENDED, CallState, Erasure, Order, OrderEdit, has_phone
from orders.order_files.columns import PHONES, WHOSE, number_of
from orders.reading import read, with_detail
from webhooks import redaction

BATCH = 200  # orders that one transaction erases, or forgets a former number in
_NUMBERS = "(quantity|unit_price|shipping_fee|total_amount)$"  # fields of edits that name nobody
_ERASE = anonymising.statement("SELECT id FROM orders_order WHERE id = ANY(%(orders)s)")


class StillOpen(Refused):
    """Some of the customer's orders have not ended; nobody could deliver them without name, phone and address."""

    code = "orders_still_open"

    def __init__(self, count: int) -> None:
        text = ngettext(
            "%(count)d order of this customer has not ended yet. Cancel it, or wait until it is delivered or returned.",
            "%(count)d orders of this customer have not ended yet. Cancel them, or wait until they are "
            "delivered or returned.",
            count,
        )
        super().__init__(text % {"count": count})


class FileUnderWay(Refused):
    """A file of orders is still being taken in; its remaining rows may bring the customer back."""

    code = "file_under_way"

    def __init__(self, name: str) -> None:
        said = _("The file “%(name)s” is under way and may bring the customer back. Let it finish, or stop it.")
        super().__init__(said % {"name": name})


class Erased(NamedTuple):
    """A number of orders of the account, and of its twin."""

    orders: int
    test_orders: int


def _with_twin(account: Account) -> list[Account]:
    """The account, and its twin if it has one."""
    return [account, *Account.objects.filter(live=account)]


def of_customer(account: Account, phone: str) -> QuerySet[Order]:
    """The orders of this number (E.164) in the account and its twin, oldest first."""
    return Order.objects.filter(has_phone(phone), account__in=_with_twin(account)).order_by("id")


def still_open(orders: QuerySet[Order]) -> QuerySet[Order]:
    """The orders that keep a customer from being erased. Test orders never do."""
    return orders.exclude(status__in=ENDED).exclude(call_state=CallState.TEST)


# --- Export ----------------------------------------------------------------------------------------------------------


def export(account: Account, phone: str) -> Iterator[bytes]:
    """A JSON object, in pieces: the number, each order with all that belongs to it, as the API shows it, and the
    customer's rows among the refused ones of files.

    Orders are read one by one, because one may have ten megabytes. Orders that once had the number are their present
    customer's, and are not given out.
    """
    asked = {"phone": phone, "exported_at": datetime.now(UTC)}
    yield dump_json(asked)[:-1] + b',"orders":['
    orders, before = of_customer(account, phone), b"\n"
    for order in chain.from_iterable(batches_by(orders.values_list("id", named=True), ["id"], BATCH)):
        for row in with_detail(orders.filter(id=order.id)).values():
            mode = TEST if row["call_state"] == CallState.TEST else LIVE
            yield before + dump_json({"mode": mode, **structs.asdict(bodies.detail(row))})
            before = b",\n"
    yield b'\n],"refused_rows":['
    before = b"\n"
    for each in _with_twin(account):
        for upload, ids in _refused_of(each.id, phone):
            theirs = set(ids)
            for row in upload.read_refused():
                if row.id in theirs:
                    told = {"mode": each.mode, "file": upload.name, "line": row.line, "cells": row.cells}
                    yield before + dump_json(told)
                    before = b",\n"
    yield b"\n]}\n"


# --- Erasure ---------------------------------------------------------------------------------------------------------


def to_erase(account: Account, phone: str) -> Erased:
    """How many orders `erase` would overwrite. Raises FileUnderWay, StillOpen."""
    under_way = Upload.objects.filter(account__in=_with_twin(account), kind="orders", status__in=Upload.OPEN)
    if name := under_way.order_by("id").values_list("name", flat=True).first():
        raise FileUnderWay(name)
    orders = of_customer(account, phone)
    if count := still_open(orders).count():
        raise StillOpen(count)
    test_orders = orders.filter(call_state=CallState.TEST).count()
    return Erased(orders.count() - test_orders, test_orders)


def erase(account: Account, phone: str, *, actor: Actor) -> Erased:
    """Overwrite the customer wherever the account, or its twin, knows them, and record that it was done.

    That is in their orders, with history, calls and edits (`orders.anonymising`); in events, the feed and the log of
    deliveries; in answers kept for an Idempotency-Key, save refusals, which name nobody; in refused rows of files; and
    in what `anonymising.COPIES` names. Orders that once had the number and now have another lose it where it is kept,
    and the edits made until then.

    Raises FileUnderWay or StillOpen with nothing erased, unless an open order came meanwhile. A file sent from now on
    may bring the customer back: it is the merchant's new word. Each BATCH of orders is one transaction, and so is each
    other step; after an interruption, call it again.
    """
    to_erase(account, phone)
    counts = [_erase(each, phone, actor=actor) for each in _with_twin(account)]
    return Erased(counts[0], sum(counts[1:])) if account.mode == LIVE else Erased(0, counts[0])


def _erase(account: Account, phone: str, *, actor: Actor) -> int:
    """Erase the customer in this account alone. Returns in how many orders."""
    record, count = uuid7(), 0

    def note() -> None:
        """Record the erasure, or update its count, in the transaction of what was erased; log it once."""
        _made, is_new = Erasure.objects.update_or_create(
            id=record,
            account=account,
            defaults={"actor": actor.name, "user_id": actor.user_id, "order_count": count},
        )
        if is_new:
            security_log.note_account(Action.ERASED, account)

    orders = of_customer(account, phone).filter(account=account)
    told: redaction.Found | None = None
    while ids := list(orders.values_list("id", flat=True)[:BATCH]):
        if told is None or not told.by_order.keys() >= {*ids}:  # at first, and when others have got the number since
            told = redaction.events_of(account.id, list(orders.values_list("id", flat=True)))
        with transaction.atomic():
            some = orders.filter(id__in=ids)
            locked = list(some.select_for_update(no_key=True).values_list("id", flat=True))
            if open_count := still_open(some).count():
                raise StillOpen(open_count)
            if locked:
                count += len(locked)
                note()
                _erase_orders(account.id, locked, told)
    for forget in anonymising.COPIES.values():
        forget(phone)
    _forget_former(account.id, phone, note)
    _forget_refused(account.id, phone, note)
    return count


def _erase_orders(account_id: UUID, ids: Sequence[UUID], told: redaction.Found) -> None:
    postgresql.execute(_ERASE, {"orders": ids, **anonymising.PARAMETERS})
    _renew_kept_answers(account_id, ids)
    redaction.overwrite(told.of(ids), anonymising.TOLD)  # also what was told of test orders, which may still change


def _renew_kept_answers(account_id: UUID, ids: Collection[UUID]) -> None:
    """Overwrite kept answers about these orders with the orders as they are now.

    Reads only orders that an answer tells of, one by one, because one may have ten megabytes.
    """

    def current(id_: str) -> dict[str, Any]:
        return structs.asdict(bodies.detail(read(account_id, UUID(id_))))

    idempotency.overwrite(account_id, {*map(str, ids)}, current)


def _forget_former(account_id: UUID, phone: str, note: Callable[[], None]) -> None:
    """Forget the number in orders that had it once.

    Their customer now has another number, and may be somebody else. Edits made until the number was replaced may tell
    of the customer who had it.
    """
    edits = OrderEdit.objects.filter(account_id=account_id, field__in=PHONES).order_by("at")
    had = {
        order_id: at
        for order_id, at, *values in edits.values_list("order_id", "at", "old", "new").iterator(chunk_size=BATCH)
        if phone in map(phones.e164_or_none, values)
    }
    if not had:
        return
    orders, told = [*had], redaction.events_of(account_id, had)
    for start in range(0, len(orders), BATCH):
        with transaction.atomic():
            # Orders are locked before what belongs to them, as in anonymising. Test orders may be deleted by now.
            some = Order.objects.filter(id__in=orders[start : start + BATCH]).order_by("id")
            ids = list(some.select_for_update(no_key=True).values_list("id", flat=True))
            if not ids:
                continue
            for order_id in ids:
                until_then = OrderEdit.objects.filter(order=order_id, at__lte=had[order_id])
                until_then.exclude(field__regex=_NUMBERS).update(old="", new="")
            _renew_kept_answers(account_id, ids)
            note()
            redaction.overwrite(
                told.of(ids), anonymising.TOLD, where=lambda data: phones.e164_or_none(data["customer_phone"]) == phone
            )


def _forget_refused(account_id: UUID, phone: str, note: Callable[[], None]) -> None:
    """Forget the customer's rows among the refused rows of files. No file is under way: `to_erase` refuses then."""
    for _upload, theirs in _refused_of(account_id, phone):
        with transaction.atomic():
            for start in range(0, len(theirs), BATCH):
                RefusedRow.objects.filter(id__in=theirs[start : start + BATCH]).delete()
            note()


# --- Refused rows of files -------------------------------------------------------------------------------------------


def _refused_of(account_id: UUID, phone: str) -> Iterator[tuple[Upload, list[int]]]:
    """The ids of the customer's rows among the refused rows of files, file by file, in the order of each.

    A cell may have been refused as a phone because of what stands beside the number: another number, or words. So any
    cell names it in which its digits stand: a row too many may go, which its merchant still has in the file, but none
    too few. The other rows of the same order are the customer's too: those with its external id, and those after them
    that name no order.
    """

    def names(cells: list[str]) -> bool:
        return any(phones.stands_in(phone, cell) for cell in cells)

    for upload in Upload.objects.filter(
        Exists(RefusedRow.objects.filter(upload=OuterRef("pk"))), account_id=account_id
    ).order_by("id"):
        found = [_whose(upload, row.cells) for row in upload.read_refused() if names(row.cells)]
        if not found:
            continue
        numbers = {number_of(whose) for whose in found} - {""}
        theirs: list[int] = []
        is_theirs = False
        for row in upload.read_refused():
            whose = _whose(upload, row.cells)
            if any(whose.values()) or not whose:
                is_theirs = number_of(whose) in numbers
            if is_theirs := is_theirs or names(row.cells):
                theirs.append(row.id)
        yield upload, theirs


def _whose(upload: Upload, cells: list[str]) -> dict[str, str]:
    """The row's cells in the columns that tell orders apart; empty if the file has none of them."""
    return {name: "".join(cells[place : place + 1]) for name, place in upload.mapping.items() if name in WHOSE}

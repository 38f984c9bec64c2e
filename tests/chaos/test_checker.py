"""Each rule of the checker finds its kind of fault, in a small good run that is broken in one place."""

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from .checker import LIMIT, RULES, check, figures
from .record import (
    Answer,
    Cancel,
    Counted,
    Decision,
    Import,
    Injury,
    Receipt,
    Record,
    Row,
    StockPut,
    Subscription,
)

SECRET = "whsec_test"


def body(tag: str) -> Row:
    line = {"product_name": "Robe", "quantity": 2, "unit_price": "10.25"}
    return {
        "customer_name": "Amine",
        "customer_phone": "0550123456",
        "total_amount": 20.5,
        "notes": tag,
        "items": [line, {**line, "quantity": 1}],
    }


def answered(id_: str) -> Row:
    return {"id": id_, "customer": {"name": "Amine"}, "total_amount": 20.5, "items": [], "created_at": "now"}


def good() -> Record:
    """A run with three orders (confirmed by an agent, canceled by the shop, line busy) and some stock updates."""
    record = Record(seconds=10.0)
    rows = record.rows
    for id_ in ("o1", "o2", "o3"):
        sent = Import("alice", body(f"tag {id_}"), key=f"key {id_}", answer=answered(id_))
        record.imports.append(sent)
        rows.orders[id_] = {
            "account": "alice",
            "status": "pending_confirmation",
            "notes": sent.tag,
            "total_amount": "20.50",
            "name": "Amine",
            "phone": "0550123456",
        }
        rows.lines[id_] = [dict(line) for line in sent.body["items"]]
        rows.changes.append({"order": id_, "from_status": None, "to_status": "pending_confirmation"})
        record.read_back[id_] = answered(id_)
    record.imports[0].replays.append(answered("o1"))
    record.imports[0].reused.append(422)
    record.imports.append(Import("alice", body("never answered")))
    record.totals["alice"] = 3
    record.decisions = [
        Decision("o1", "confirm", "n1", is_done=True),
        Decision("o3", "busy", "n2", is_done=True),
        Decision("o2", "confirm", "n3", is_done=False),
    ]
    record.cancels = [Cancel("o2", 200)]
    rows.notes = [("o1", "n1"), ("o3", "n2")]
    record.puts = [
        StockPut("alice", {"SKU-1": 7, "SKU-2": 8}, is_answered=True),
        StockPut("alice", {"SKU-1": 9}),
        StockPut("alice", {"SKU-1": 10}, is_answered=True),
    ]
    for number, quantity in ((1, 10), (2, 8)):
        rows.products[f"p{number}"] = {"account": "alice", "sku": f"SKU-{number}", "stock_quantity": quantity}
    record.webhooks = {
        "/all": Subscription("alice", ["order.confirmed", "order.cancelled", "inventory.updated"], SECRET),
        "/cancelled": Subscription("alice", ["order.cancelled"], SECRET),
        "/bob": Subscription("bob", ["order.cancelled"], SECRET),
    }
    move(record, "o1", "confirmed")
    move(record, "o2", "canceled")
    restock(record, "p1", 0, 7)
    restock(record, "p2", 0, 8)
    restock(record, "p1", 7, 10)
    rows.settings = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
    record.burst = [Counted(200, left) for left in range(LIMIT)] + [Counted(429, 0)] * 20
    record.injuries = [
        Injury("web killed", 100.0, 100.0, kills="web", recovered=101.0),
        Injury("worker killed", 200.0, 200.0, kills="worker", hurts=False, in_flight=["d-o1/all"], recovered=200.1),
    ]
    record.answers = [
        Answer("alice", "POST /api/v1/orders", 99.9, 100.0, 0),
        Answer("alice", "POST /api/v1/orders", 100.2, 100.3, 503, "application/json", "1"),
        Answer("samira", "GET /console/desk/", 100.2, 100.3, 503, "text/html", "1"),
        Answer("alice", "POST /api/v1/orders", 200.0, 200.1, 201, "application/json"),
    ]
    record.receipts.append(replace(record.receipts[0]))  # it was under way when its worker was killed
    return record


def move(record: Record, order: str, status: str) -> None:
    record.rows.orders[order]["status"] = status
    record.rows.changes.append({"order": order, "from_status": "pending_confirmation", "to_status": status})
    tell(record, order, {"confirmed": "order.confirmed", "canceled": "order.cancelled"}[status], {"id": order})


def restock(record: Record, product: str, old: int, new: int) -> None:
    record.rows.movements.append({"product": product, "old": old, "new": new})
    data = {"product_id": product, "old_quantity": old, "new_quantity": new}
    tell(record, f"{product}-{old}-{new}", "inventory.updated", data)


def tell(record: Record, name: str, kind: str, data: Row) -> None:
    text = json.dumps({"event": kind, "data": data})
    record.rows.events[name] = {"account": "alice", "kind": kind, "body": text}
    for path, webhook in record.webhooks.items():
        if webhook.account == "alice" and kind in webhook.kinds:
            id_ = f"d-{name}{path}"
            record.rows.deliveries[id_] = {"event": name, "webhook": path, "status": "delivered"}
            signature = "sha256=" + hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()
            record.receipts.append(Receipt(path, id_, 1, kind, signature, text.encode()))


def test_a_run_that_went_well_breaks_no_rule() -> None:
    record = good()
    assert check(record) == []
    found = figures(record, [])
    assert (found["changes"]["all"], found["kills"]["all"], found["sent again"]) == (8, 2, 1)


def drop_order(record: Record) -> None:
    del record.rows.orders["o3"], record.rows.lines["o3"]
    record.rows.changes = [change for change in record.rows.changes if change["order"] != "o3"]


def drop_line(record: Record) -> None:
    del record.rows.lines["o1"][0]


def apply_half(record: Record) -> None:
    record.puts.append(StockPut("alice", {"SKU-1": 11, "SKU-2": 12}))
    restock(record, "p1", 10, 11)
    record.rows.products["p1"]["stock_quantity"] = 11


def import_twice(record: Record) -> None:
    record.rows.orders["o4"] = dict(record.rows.orders["o3"])
    record.rows.lines["o4"] = record.rows.lines["o3"]
    record.rows.changes.append({"order": "o4", "from_status": None, "to_status": "pending_confirmation"})


def move_twice(record: Record) -> None:
    record.rows.changes.append(dict(record.rows.changes[3]))


def restock_twice(record: Record) -> None:
    restock(record, "p1", 10, 7)
    record.rows.products["p1"]["stock_quantity"] = 7


def lose_update(record: Record) -> None:
    record.rows.movements[2]["old"] = 0


def forget_stock(record: Record) -> None:
    record.rows.products["p2"]["stock_quantity"] = 0


def tell_again(record: Record) -> None:
    tell(record, "again", "order.confirmed", {"id": "o1"})


def tell_of_nothing(record: Record) -> None:
    tell(record, "nothing", "order.cancelled", {"id": "o3"})


def forget_event(record: Record) -> None:
    del record.rows.events["p1-7-10"], record.rows.deliveries["d-p1-7-10/all"]
    record.receipts = [each for each in record.receipts if each.delivery != "d-p1-7-10/all"]


def forget_delivery(record: Record) -> None:
    del record.rows.deliveries["d-o2/cancelled"]
    record.receipts = [each for each in record.receipts if each.delivery != "d-o2/cancelled"]


def deliver_to_bob(record: Record) -> None:
    record.rows.deliveries["d-o2/bob"] = {"event": "o2", "webhook": "/bob", "status": "delivered"}
    record.receipts.append(replace(record.receipts[1], webhook="/bob", delivery="d-o2/bob"))


# Name → how to break the run, and the rules that find it, first the one that is meant to.
PLANTED: dict[str, tuple[Callable[[Record], object], set[str]]] = {
    "an order that was answered is gone": (drop_order, {"lost", "reading"}),
    "a line of an order is gone": (drop_line, {"lost", "halved"}),
    "an amount is another": (lambda r: r.rows.orders["o1"].update(total_amount="20.51"), {"lost"}),
    "a confirmation is gone": (
        lambda r: (r.rows.changes.pop(3), r.rows.orders["o1"].update(status="pending_confirmation")),
        {"lost", "events"},
    ),
    "a cancellation is gone": (
        lambda r: (r.rows.changes.pop(4), r.rows.orders["o2"].update(status="pending_confirmation")),
        {"lost", "events"},
    ),
    "a call note is gone": (lambda r: r.rows.notes.remove(("o3", "n2")), {"lost"}),
    "a call note is there twice": (lambda r: r.rows.notes.append(("o3", "n2")), {"doubled"}),
    "an order is there twice": (import_twice, {"doubled", "reading"}),
    "a move was made twice": (move_twice, {"doubled", "moves"}),
    "a stock was set twice": (restock_twice, {"doubled"}),
    "an event is there twice": (tell_again, {"doubled"}),
    "half of a stock update was applied": (apply_half, {"halved"}),
    "an order came from nowhere": (lambda r: r.imports.pop(2), {"unasked"}),
    "a move came from nowhere": (lambda r: r.cancels.clear(), {"unasked", "idle"}),
    "a stock came from nowhere": (lambda r: r.puts.pop(2), {"unasked"}),
    "an illegal move": (lambda r: r.rows.changes[3].update(from_status="canceled"), {"moves"}),
    "a status that its history does not know": (lambda r: r.rows.orders["o3"].update(status="shipped"), {"moves"}),
    "a lost stock update": (lose_update, {"stock", "events"}),
    "a stock that its movements do not know": (forget_stock, {"stock"}),
    "a retry that is answered otherwise": (lambda r: r.imports[0].replays.append(answered("o9")), {"replays"}),
    "a key that takes another body": (lambda r: r.imports[0].reused.append(201), {"replays"}),
    "an order that reads otherwise": (lambda r: r.read_back["o1"].update(total_amount=1), {"reading"}),
    "an order that is not found": (lambda r: r.read_back.update(o1={"error": "not_found"}), {"reading"}),
    "a total that is not exact": (lambda r: r.totals.update(alice=4), {"reading"}),
    "a change without its event": (forget_event, {"events"}),
    "an event without its change": (tell_of_nothing, {"events"}),
    "a delivery that was never written": (forget_delivery, {"deliveries"}),
    "a delivery that still waits": (lambda r: r.rows.deliveries["d-o1/all"].update(status="pending"), {"deliveries"}),
    "a delivery to another merchant": (deliver_to_bob, {"deliveries"}),
    "a delivery that never arrived": (lambda r: r.receipts.pop(1), {"arrivals"}),
    "bytes that were not signed": (lambda r: setattr(r.receipts[1], "body", b"{}"), {"arrivals"}),
    "a wrong address": (lambda r: setattr(r.receipts[1], "webhook", "/cancelled"), {"arrivals"}),
    "a repeat that no kill explains": (lambda r: r.receipts.append(replace(r.receipts[1])), {"repeats"}),
    "more repeats than kills": (lambda r: r.receipts.append(replace(r.receipts[0])), {"repeats"}),
    "a crash": (lambda r: setattr(r.answers[1], "status", 500), {"answers"}),
    "a 503 that does not say when": (lambda r: setattr(r.answers[1], "retry_after", ""), {"answers"}),
    "a 503 that is a page": (lambda r: setattr(r.answers[1], "content_type", "text/html"), {"answers"}),
    "a refusal while only a worker is away": (
        lambda r: r.answers.append(Answer("alice", "POST /api/v1/orders", 200, 201, 503, "application/json", "1")),
        {"calm"},
    ),
    "silence while nothing is wrong": (lambda r: r.answers.append(Answer("bob", "GET /", 150, 151, 0)), {"calm"}),
    "a service that does not come back": (lambda r: setattr(r.injuries[1], "recovered", None), {"recovery"}),
    "a service that ended by itself": (lambda r: r.exits.append("giving up"), {"recovery"}),
    "a deadlock": (lambda r: setattr(r, "log", "ERROR:  deadlock detected"), {"recovery"}),
    "a limiter that lets one more through": (lambda r: r.burst.append(Counted(200, 0)), {"limit"}),
    "a limiter that counts two at once": (lambda r: setattr(r.burst[5], "remaining", 6), {"limit"}),
    "a limiter that lets fewer through": (lambda r: setattr(r.burst[5], "status", 429), {"limit"}),
    "a run without agents": (lambda r: [setattr(each, "is_done", None) for each in r.decisions], {"idle"}),
    "a run that reads nothing": (lambda r: r.read_back.clear(), {"idle"}),
    "a limit that nobody tried": (lambda r: r.burst.clear(), {"limit"}),
    "commits that are answered early": (lambda r: r.rows.settings.update(synchronous_commit="off"), {"durability"}),
}


@pytest.mark.parametrize("broken", PLANTED)
def test_what_is_broken_is_found(broken: str) -> None:
    plant, rules = PLANTED[broken]
    record = good()
    plant(record)
    assert {breach.rule for breach in check(record)} == rules


def test_each_rule_was_broken() -> None:
    assert {rule for _, rules in PLANTED.values() for rule in rules} == set(RULES)

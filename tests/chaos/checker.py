"""Checks what must not have happened, whatever was killed when. Reads only a `Record`, and uses no code of the service.

Each rule is a function that yields a sentence for each breach. tests/chaos/test_checker.py breaks each of them.
"""

import hashlib
import hmac
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .record import Answer, Record, Row

Breaches = Iterator[str]
RULES: dict[str, Callable[[Record], Breaches]] = {}

PENDING, CONFIRMED, CANCELED = "pending_confirmation", "confirmed", "canceled"
# The table of moves (docs/architecture.md), as far as the load makes them.
MOVES = {(None, PENDING), (PENDING, CONFIRMED), (PENDING, CANCELED), (CONFIRMED, CANCELED)}
TOLD = {CONFIRMED: "order.confirmed", CANCELED: "order.cancelled"}
STOCK = "inventory.updated"
LIMIT = 60  # requests a minute (docs/limits.md)
# What makes a commit durable.
DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
GRACE = 3.0  # seconds after a recovery, in which a connection may still turn out to be dead


def rule(function: Callable[[Record], Breaches]) -> Callable[[Record], Breaches]:
    RULES[function.__name__] = function
    return function


@dataclass(frozen=True)
class Breach:
    rule: str
    what: str


def check(record: Record) -> list[Breach]:
    return [Breach(name, what) for name, function in RULES.items() for what in function(record)]


# --- State ---------------------------------------------------------------------------------------------------------


@rule
def lost(record: Record) -> Breaches:
    """Whatever was confirmed by an answer is stored, as it was sent."""
    rows, at_tag = record.rows, _by_tag(record)
    for wanted in record.imports:
        if wanted.answer is None:
            continue
        id_ = wanted.answer["id"]
        if id_ not in at_tag[wanted.tag]:
            yield f"order {id_} was answered and is not there"
        elif (left := _as_stored(rows.orders[id_], rows.lines.get(id_, []))) != _as_sent(wanted.body):
            yield f"order {id_} was sent as {_as_sent(wanted.body)} and is {left}"
    reached = {(change["order"], change["to_status"]) for change in rows.changes}
    for cancel in record.cancels:
        if cancel.status == 200 and (cancel.order, CANCELED) not in reached:
            yield f"the shop's cancellation of {cancel.order} was answered and is not there"
    noted = set(rows.notes)
    for decision in record.decisions:
        if not decision.is_done:
            continue
        status = {"confirm": CONFIRMED, "cancel": CANCELED}.get(decision.outcome)
        if status and (decision.order, status) not in reached:
            yield f"the agent's {decision.outcome} of {decision.order} was answered and is not there"
        if (decision.order, decision.note) not in noted:
            yield f"the call note {decision.note!r} of {decision.order} was answered and is not there"
    moved = _quantities(record)
    for put in record.puts:
        for sku, quantity in put.entries.items():
            if put.is_answered and not moved[put.account, sku, quantity]:
                yield f"stock {quantity} of {sku} was answered and is not there"


@rule
def doubled(record: Record) -> Breaches:
    """Nothing happened twice."""
    for tag, ids in _by_tag(record).items():
        if len(ids) > 1:
            yield f"{tag} was imported {len(ids)} times"
    yield from _repeated(
        ((change["order"], change["to_status"]) for change in record.rows.changes), "{0} became {1} {n} times"
    )
    yield from _repeated(record.rows.notes, "the call note {1!r} of {0} was written {n} times")
    yield from _repeated(_quantities(record).elements(), "the stock of {1} became {2} {n} times")
    yield from _repeated(_told(record).elements(), "{0} of {1} was published {n} times")


@rule
def halved(record: Record) -> Breaches:
    """A request that was not answered did all or nothing."""
    sent = {each.tag: each.body for each in record.imports}
    for tag, ids in _by_tag(record).items():
        for id_ in ids:
            if tag in sent and len(record.rows.lines.get(id_, [])) != len(sent[tag]["items"]):
                yield f"order {id_} has {len(record.rows.lines.get(id_, []))} of {len(sent[tag]['items'])} lines"
    moved = _quantities(record)
    for put in record.puts:
        done = sum(bool(moved[put.account, sku, quantity]) for sku, quantity in put.entries.items())
        if done not in (0, len(put.entries)):
            yield f"{done} of {len(put.entries)} entries of a stock update were applied: {put.entries}"


@rule
def unasked(record: Record) -> Breaches:
    """Nothing is stored that nobody sent."""
    sent = {each.tag for each in record.imports}
    yield from (f"order {id_} came from nobody" for id_, row in record.rows.orders.items() if row["notes"] not in sent)
    asked = {(cancel.order, CANCELED) for cancel in record.cancels}
    asked |= {(each.order, CONFIRMED) for each in record.decisions if each.outcome == "confirm"}
    asked |= {(each.order, CANCELED) for each in record.decisions if each.outcome == "cancel"}
    for change in record.rows.changes:
        if change["from_status"] is not None and (change["order"], change["to_status"]) not in asked:
            yield f"nobody asked that {change['order']} became {change['to_status']}"
    put = {(each.account, sku, quantity) for each in record.puts for sku, quantity in each.entries.items()}
    yield from (f"nobody set the stock {key}" for key in _quantities(record) if key not in put)


@rule
def moves(record: Record) -> Breaches:
    """Each order's moves are an unbroken chain of legal ones, and its status is where the last one led."""
    history = defaultdict(list)
    for change in record.rows.changes:
        history[change["order"]].append((change["from_status"], change["to_status"]))
    for id_, row in record.rows.orders.items():
        at = None
        for from_status, to_status in history[id_]:
            if from_status != at or (from_status, to_status) not in MOVES:
                yield f"{id_} was {at} and went from {from_status} to {to_status}"
            at = to_status
        if row["status"] != at:
            yield f"{id_} is {row['status']}, its history says {at}"


@rule
def stock(record: Record) -> Breaches:
    """A product's old and new quantities are an unbroken chain that ends at its stock: no update was lost."""
    at: dict[str, int] = {}
    for movement in record.rows.movements:
        product = movement["product"]
        if at.get(product, movement["old"]) != movement["old"]:
            yield f"{product} stood at {at[product]} and moved from {movement['old']} to {movement['new']}"
        at[product] = movement["new"]
    for id_, row in record.rows.products.items():
        if id_ in at and row["stock_quantity"] != at[id_]:
            yield f"{row['sku']} has {row['stock_quantity']}, its movements say {at[id_]}"


@rule
def replays(record: Record) -> Breaches:
    """The same Idempotency-Key gives the same order again, and another body is refused."""
    for wanted in record.imports:
        yield from (f"{wanted.tag} was answered differently again" for each in wanted.replays if each != wanted.answer)
        yield from (f"{wanted.key} took another body with {status}" for status in wanted.reused if status != 422)


@rule
def reading(record: Record) -> Breaches:
    """At the end the API shows orders as it answered their imports, and counts exactly."""
    for wanted in record.imports:
        shown = record.read_back.get(wanted.answer["id"], {}) if wanted.answer else {}
        for name in shown and ("id", "customer", "total_amount", "items", "created_at"):
            before, now = wanted.answer[name], shown.get(name)
            if isinstance(before, dict) and isinstance(now, dict):
                now = {field: now.get(field) for field in before}
            if before != now:
                yield f"{name} of {wanted.answer['id']} was answered as {before} and reads {now}"
                break
    counted = Counter(row["account"] for row in record.rows.orders.values())
    for account, total in record.totals.items():
        if total != counted[account]:
            yield f"the list of {account} counts {total} orders, there are {counted[account]}"


# --- Events and deliveries -----------------------------------------------------------------------------------------


@rule
def events(record: Record) -> Breaches:
    """No change without its event, no event without its change."""
    changed = Counter(
        (TOLD[change["to_status"]], change["order"]) for change in record.rows.changes if change["to_status"] in TOLD
    )
    changed.update((STOCK, (m["product"], m["old"], m["new"])) for m in record.rows.movements)
    told = _told(record)
    yield from (f"{kind} of {what} has no event" for kind, what in changed.keys() - told.keys())
    yield from (f"{kind} of {what} is told and did not happen" for kind, what in told.keys() - changed.keys())


@rule
def deliveries(record: Record) -> Breaches:
    """Each event has one delivery for each webhook subscribed to it, and each was acknowledged in the end."""
    rows = record.rows
    wanted = Counter(
        (id_, path)
        for id_, event in rows.events.items()
        for path, webhook in record.webhooks.items()
        if webhook.account == event["account"] and event["kind"] in webhook.kinds
    )
    there = Counter((row["event"], row["webhook"]) for row in rows.deliveries.values())
    yield from (f"the delivery of {event} to {path} is missing" for event, path in (wanted - there).elements())
    yield from (f"the delivery of {event} to {path} is too many" for event, path in (there - wanted).elements())
    for id_, row in rows.deliveries.items():
        if row["status"] != "delivered":
            yield f"delivery {id_} is {row['status']}"


@rule
def arrivals(record: Record) -> Breaches:
    """Every delivery arrived, and each of its attempts came to the right webhook as it was written and signed."""
    rows = record.rows
    arrived = {receipt.delivery for receipt in record.receipts}
    yield from (f"delivery {id_} never arrived" for id_ in rows.deliveries.keys() - arrived)
    for receipt in record.receipts:
        delivery = rows.deliveries.get(receipt.delivery)
        if delivery is None:
            yield f"{receipt.webhook} got {receipt.delivery}, which is no delivery"
            continue
        event = rows.events[delivery["event"]]
        secret = record.webhooks[receipt.webhook].secret.encode()
        signature = "sha256=" + hmac.new(secret, receipt.body, hashlib.sha256).hexdigest()
        got = (receipt.webhook, receipt.event, receipt.body.decode(), receipt.signature)
        if got != (delivery["webhook"], event["kind"], event["body"], signature):
            yield f"attempt {receipt.attempt} of {receipt.delivery} was not what was written: {got}"


@rule
def repeats(record: Record) -> Breaches:
    """An attempt is sent again only if its worker was killed while it was under way, and once for each such kill."""
    allowed = Counter(id_ for injury in record.injuries for id_ in injury.in_flight)
    for id_, times in _sent_again(record).items():
        if times > allowed[id_]:
            yield f"delivery {id_} was sent {times} times too often, {allowed[id_]} kills met it under way"


# --- Answers -------------------------------------------------------------------------------------------------------


@rule
def answers(record: Record) -> Breaches:
    """The only 5xx is 503, which has Retry-After and from the API is JSON."""
    for answer in record.answers:
        where = f"{answer.who}'s {answer.what} at {answer.began:.1f}"
        if answer.status >= 500 and answer.status != 503:
            yield f"{where}: {answer.status}"
        elif answer.status == 503 and not answer.retry_after:
            yield f"{where}: 503 without Retry-After"
        elif answer.status == 503 and "/api/" in answer.what and answer.content_type != "application/json":
            yield f"{where}: 503 as {answer.content_type}"


@rule
def calm(record: Record) -> Breaches:
    """Every request is answered while all that answers need is well. They need no Redis, worker or beat."""
    excused = _excused(record)
    for answer in record.answers:
        if answer.status in (0, 503) and not _overlaps(answer, excused):
            said = answer.status or "no answer"
            yield f"{answer.who}'s {answer.what} from {answer.began:.1f} to {answer.ended:.1f}: {said}"


@rule
def recovery(record: Record) -> Breaches:
    """The service recovers by itself, whatever was done to it."""
    yield from (f"no answer after: {injury.fault}" for injury in record.injuries if injury.recovered is None)
    yield from (f"the service ended by itself: {said}" for said in record.exits)
    if "deadlock detected" in record.log:
        yield f"{record.log.count('deadlock detected')} deadlocks in the log of PostgreSQL"


@rule
def limit(record: Record) -> Breaches:
    """Of many requests at once exactly as many as the limit pass, each with a different number of requests left.

    As promised, a request that Redis does not count within 0.2 s passes too, and says that all are left.
    """
    passed = sorted(each.remaining for each in record.burst if each.status != 429 and each.remaining != LIMIT)
    if passed != list(range(LIMIT)):
        yield f"{len(passed)} of {len(record.burst)} requests passed a limit of {LIMIT}; left were {passed}"


@rule
def durability(record: Record) -> Breaches:
    """A commit is on the disk before it is answered."""
    for name, value in DURABLE.items():
        if record.rows.settings.get(name) != value:
            yield f"{name} is {record.rows.settings.get(name)}"


@rule
def idle(record: Record) -> Breaches:
    """There was some of everything that the other rules check, as a run that did nothing would keep every promise."""
    done = {
        "import": any(each.answer for each in record.imports),
        "import sent again": any(each.replays for each in record.imports),
        "cancellation": any(cancel.status == 200 for cancel in record.cancels),
        "decision of an agent": any(decision.is_done for decision in record.decisions),
        "stock update": any(put.is_answered for put in record.puts),
        "delivery": record.receipts,
        "order read back": record.read_back,
        "total of a list": record.totals,
    }
    yield from (f"there was no {what} that was answered" for what, some in done.items() if not some)


# --- Figures -------------------------------------------------------------------------------------------------------


def figures(record: Record, breaches: list[Breach]) -> Row:
    """What happened in the run and what it showed, for people and as JSON."""
    rows = record.rows
    became = Counter(change["to_status"] for change in rows.changes)
    of_rule = Counter(breach.rule for breach in breaches)
    statuses = Counter(answer.status for answer in record.answers)
    excused = _excused(record)
    in_calm = [each for each in record.answers if not _overlaps(each, excused)]
    times = sorted(each.ended - each.began for each in in_calm if "/api/" in each.what)
    without_redis = [
        each for each in in_calm if _overlaps(each, [(i.began, i.ended) for i in record.injuries if not i.hurts])
    ]
    recoveries = defaultdict(list)
    for injury in record.injuries:
        if injury.hurts and injury.recovered is not None:
            recoveries[injury.fault].append(round(injury.recovered - injury.began, 1))
    kills = Counter(injury.kills for injury in record.injuries if injury.kills)
    return {
        "seconds": round(record.seconds),
        "changes": {
            "imported": became[PENDING],
            "confirmed": became[CONFIRMED],
            "canceled": became[CANCELED],
            "stock": len(rows.movements),
            "all": len(rows.changes) + len(rows.movements),
        },
        "calls noted": len(rows.notes),
        "events": len(rows.events),
        "deliveries": len(rows.deliveries),
        "received": len(record.receipts),
        "faults": dict(sorted(Counter(injury.fault for injury in record.injuries).items())),
        "kills": {**dict(sorted(kills.items())), "all": sum(kills.values())},
        "starts made again": record.starts_again,
        "lost": of_rule["lost"] + of_rule["stock"],
        "doubled": of_rule["doubled"],
        "missing deliveries": of_rule["events"] + of_rule["deliveries"] + of_rule["arrivals"],
        "sent again": sum(_sent_again(record).values()),
        "in flight at kills": sum(len(injury.in_flight) for injury in record.injuries),
        "answers": {str(status or "none"): count for status, count in sorted(statuses.items())},
        "503 within": f"{_most(each.ended - each.began for each in record.answers if each.status == 503)} s",
        "answers in calm": len(in_calm),
        "of these with Redis, worker or beat away": len(without_redis),
        "passed the limit uncounted": sum(each.remaining == LIMIT for each in record.burst),
        "milliseconds in calm, p50 and p99": [_percentile(times, 0.5), _percentile(times, 0.99)],
        "seconds to recover, at most": {fault: max(each) for fault, each in sorted(recoveries.items())},
        "held in the first and the last fifth": _held(record),
        "breaches": dict(of_rule),
    }


def _held(record: Record) -> dict[str, list[float]]:
    """Average megabytes by part, and sessions of the database, in the first and the last fifth of the run."""
    few = max(len(record.samples) // 5, 1)
    ends = [record.samples[:few], record.samples[-few:]]
    names = sorted({name for sample in record.samples for name in sample})
    return {name: [round(sum(each.get(name, 0) for each in end) / len(end), 1) for end in ends] for name in names}


def _most(numbers: Iterator[float]) -> float:
    return round(max(numbers, default=0.0), 1)


def _percentile(ordered: list[float], part: float) -> float:
    return round(ordered[min(math.ceil(part * len(ordered)), len(ordered)) - 1] * 1000, 1) if ordered else 0.0


# --- What the rules share ------------------------------------------------------------------------------------------


def _by_tag(record: Record) -> dict[str, list[str]]:
    found = defaultdict(list)
    for id_, row in record.rows.orders.items():
        found[row["notes"]].append(id_)
    return found


def _as_sent(body: Row) -> Row:
    return {
        "name": body["customer_name"],
        "phone": body["customer_phone"],
        "total": Decimal(str(body["total_amount"])),
        "lines": [(line["product_name"], line["quantity"], Decimal(str(line["unit_price"]))) for line in body["items"]],
    }


def _as_stored(order: Row, lines: list[Row]) -> Row:
    return {
        "name": order["name"],
        "phone": order["phone"],
        "total": Decimal(order["total_amount"]),
        "lines": [(line["product_name"], line["quantity"], Decimal(line["unit_price"])) for line in lines],
    }


def _quantities(record: Record) -> Counter[tuple[str, str, int]]:
    """(account, SKU, new quantity) of each movement. The load sends each quantity only once."""
    rows = record.rows
    return Counter(
        (product["account"], product["sku"], movement["new"])
        for movement in rows.movements
        for product in [rows.products[movement["product"]]]
    )


def _told(record: Record) -> Counter[tuple[str, Any]]:
    """(kind, subject) of each event of the changes that the load makes."""
    told: Counter[tuple[str, Any]] = Counter()
    for event in record.rows.events.values():
        data = json.loads(event["body"])["data"]
        if event["kind"] == STOCK:
            told[STOCK, (data["product_id"], data["old_quantity"], data["new_quantity"])] += 1
        elif event["kind"] in TOLD.values():
            told[event["kind"], data["id"]] += 1
    return told


def _repeated(keys: Any, sentence: str) -> Breaches:
    yield from (sentence.format(*key, n=count) for key, count in Counter(keys).items() if count > 1)


def _sent_again(record: Record) -> Counter[str]:
    """For each delivery, how often its attempts came in again, because they were sent but not recorded."""
    attempts = Counter((receipt.delivery, receipt.attempt) for receipt in record.receipts)
    again: Counter[str] = Counter()
    for (delivery, _), count in attempts.items():
        if count > 1:
            again[delivery] += count - 1
    return again


def _excused(record: Record) -> list[tuple[float, float]]:
    return [(i.began, (i.recovered or math.inf) + GRACE) for i in record.injuries if i.hurts]


def _overlaps(answer: Answer, spans: list[tuple[float, float]]) -> bool:
    return any(began <= answer.ended and answer.began <= ended for began, ended in spans)

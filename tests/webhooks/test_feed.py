"""The feed: every event exactly once, oldest first, however late it commits; a page costs the same at any length."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account
from inventory import stock
from inventory.models import Product
from orders import lifecycle, shipments
from orders.models import Order, Status
from tests.factories import ProductFactory, make_order
from tests.harness.background import Background, at_once, eventually, open_transaction
from tests.harness.client import ApiClient, new_key
from tests.harness.database import one, wait_for_lock
from tests.harness.plans import explain
from webhooks import events, feed, recovery, retention
from webhooks.models import Delivery, Event, FeedEra, Recovery, Webhook

FEED = "/api/v1/events"
KIND = Event.Kind.ORDER_CONFIRMED

pytestmark = pytest.mark.django_db(transaction=True)


def publish(account: Account, *numbers: int, kind: Event.Kind = KIND) -> None:
    at = timezone.now()
    with transaction.atomic():
        events.publish([events.Told(account.id, kind, {"n": number}, at) for number in numbers])


def read_all(api: ApiClient, *, count: int = 0, **parameters: Any) -> tuple[list[dict[str, Any]], str]:
    """Return everything from `after` on, and the `next` to go on from, once there are `count` events. Transactions of
    the server's other databases may hold events back for a moment.
    """

    def enough() -> tuple[list[dict[str, Any]], str] | None:
        read = _read_all(api, **parameters)
        return read if len(read[0]) >= count else None

    return eventually(enough)


def _read_all(api: ApiClient, after: str = "", **parameters: Any) -> tuple[list[dict[str, Any]], str]:
    found, has_more = [], True
    while has_more:
        answer = api.get(FEED, {"after": after, **parameters}).json()
        found += answer["data"]
        after, has_more = answer["next"], answer["has_more"]
    return found, after


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return [each["data"]["n"] for each in found]


def test_all_that_happens_is_there_subscribed_to_or_not(alice: Account, api: ApiClient, charlie: Account) -> None:
    order = make_order(alice, external_id="1042")
    lifecycle.confirm(order.id, actor=Actor(Role.AGENT, "Samira"))
    make_order(charlie)

    found, _ = read_all(api, count=2)

    assert [each["event"] for each in found] == ["order.created", "order.confirmed"]
    created, confirmed = found
    assert created["data"]["external_id"] == "1042"
    assert confirmed["data"]["status"] == "confirmed"
    written = Event.objects.get(id=UUID(confirmed["id"]))
    assert json.loads(written.body) == {name: value for name, value in confirmed.items() if name != "id"}


def test_a_reader_goes_on_where_it_was(alice: Account, api: ApiClient) -> None:
    publish(alice, *range(25))
    read_all(api, count=25)
    # The horizon may still go back for a moment.
    first = eventually(lambda: (page := api.get(FEED, {"limit": 10}).json())["has_more"] and page)
    assert len(first["data"]) == 10

    found, after = read_all(api, count=15, after=first["next"], limit=10)

    assert sorted(numbers(first["data"] + found)) == list(range(25))
    assert read_all(api, after=after)[0] == []
    publish(alice, 25)
    assert numbers(read_all(api, count=1, after=after)[0]) == [25]


def test_what_is_dated_ahead_comes_once(alice: Account, api: ApiClient) -> None:
    with transaction.atomic():
        events.publish([events.Told(alice.id, KIND, {"n": 1}, timezone.now() + timedelta(hours=1))])  # type: ignore[arg-type]
    read_all(api, count=1)
    place = Event.objects.get().position  # where the reader's `next` stays while nothing else happens

    assert read_all(api, after=feed.Cursor(place, feed.LAST_ID, timezone.now()).sign(alice.id))[0] == []


def test_kinds_are_chosen(alice: Account, api: ApiClient) -> None:
    publish(alice, 1)
    publish(alice, 2, kind=Event.Kind.ORDER_CREATED)
    publish(alice, 3, kind=Event.Kind.PRODUCT_UPDATED)

    assert numbers(read_all(api, count=2, types="order.created, order.confirmed")[0]) == [1, 2]
    assert numbers(read_all(api, count=1, types="product.updated", limit=1)[0]) == [3]


def test_neither_pings_nor_examples_have_happened(
    alice: Account, api: ApiClient, register: Callable[..., Webhook]
) -> None:
    webhook = register(alice)
    for body in ({}, {"event": "order.created"}):
        assert api.post(f"/api/v1/webhooks/{webhook.id}/ping", body).status_code == 202
    publish(alice, 1)
    assert numbers(read_all(api, count=1)[0]) == [1]


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"after": "x"}, "after"),
        ({"after": "0.0"}, "after"),
        ({"after": "é" * 50}, "after"),
        ({"after": "A" * 5000}, "after"),
        ({"types": ""}, "types"),
        ({"types": "ping"}, "types"),
        ({"types": ",".join(["order.created"] * 21)}, "types"),
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "1.0"}, "limit"),
    ],
)
def test_what_cannot_be_used_is_refused(api: ApiClient, parameters: dict[str, str], field: str) -> None:
    answer = api.get(FEED, parameters)

    assert (answer.status_code, answer.json()["error"]) == (422, "validation_failed")
    assert list(answer.json()["errors"]) == [field]


def test_a_cursor_is_an_accounts_own_and_cannot_be_made(
    alice: Account, api: ApiClient, charlies_api: ApiClient
) -> None:
    publish(alice, 1)
    after = api.get(FEED).json()["next"]

    assert charlies_api.get(FEED, {"after": after}).status_code == 422
    assert api.get(FEED, {"after": after[1:]}).status_code == 422
    assert api.get(FEED, {"after": after[:-1]}).status_code == 422
    body, _, signature = after.partition(".")
    other = chr(ord(body[4]) ^ 1)
    assert api.get(FEED, {"after": f"{body[:4]}{other}{body[5:]}.{signature}"}).status_code == 422


def test_a_key_needs_the_scope(alice: Account) -> None:
    answer = ApiClient(new_key(alice, scopes=["webhooks:read", "orders:read"])).get(FEED)
    assert (answer.status_code, answer.json()["error"]) == (403, "insufficient_scope")
    assert ApiClient(new_key(alice, scopes=["events:read"])).get(FEED).status_code == 200


def test_what_is_not_committed_holds_back_what_came_after_it(alice: Account, api: ApiClient) -> None:
    with open_transaction(lambda: publish(alice, 1)):
        publish(alice, 2)
        found, after = read_all(api)
        assert found == []

    assert numbers(read_all(api, count=2, after=after)[0]) == [1, 2]


def test_what_is_open_in_another_database_of_the_server_holds_back_nothing(alice: Account, api: ApiClient) -> None:
    with psycopg.connect(**connection.get_connection_params() | {"dbname": "postgres", "context": None}) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        publish(alice, 1)

        assert numbers(read_all(api, count=1)[0]) == [1]


@contextmanager
def horizon_back() -> Iterator[None]:
    """Set the horizon back, as if another database's transaction had ended between snapshot and look at its lock."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT webhooks_feed_horizon()")
        back = cursor.fetchone()[0] - 100
        cursor.execute(
            "CREATE OR REPLACE FUNCTION webhooks_feed_horizon() RETURNS bigint LANGUAGE sql STABLE AS"
            f" $$ SELECT {back}::bigint $$"
        )
        yield
        transaction.set_rollback(True)


def test_a_horizon_that_goes_back_for_a_moment_leads_no_reader_back(alice: Account) -> None:
    publish(alice, 1)
    read = eventually(lambda: (page := feed.read(alice.id)).events and page)
    assert len(read.events) == 1
    with horizon_back():
        meanwhile = feed.read(alice.id, after=read.next)
    assert (meanwhile.events, meanwhile.has_more) == ([], False)
    assert feed.read(alice.id, after=meanwhile.next).events == []
    publish(alice, 2)
    assert len(eventually(lambda: feed.read(alice.id, after=meanwhile.next).events)) == 1


def test_nor_past_the_rest_of_what_one_transaction_published(alice: Account, api: ApiClient) -> None:
    publish(alice, 1, 2, 3)
    read = eventually(lambda: (page := feed.read(alice.id, limit=1)).events and page)
    assert read.has_more
    with horizon_back():
        meanwhile = feed.read(alice.id, after=read.next, limit=1)
    assert (meanwhile.events, meanwhile.next, meanwhile.has_more) == ([], read.next, False)

    found, after = read_all(api, count=2, after=meanwhile.next.sign(alice.id), limit=1)

    assert sorted([json.loads(read.events[0].body)["data"]["n"], *numbers(found)]) == [1, 2, 3]
    assert read_all(api, after=after)[0] == []


# --- Racing ----------------------------------------------------------------------------------------------------------


def by_feed(account: Account) -> Callable[[], list[UUID]]:
    cursor: list[feed.Cursor | None] = [None]

    def read() -> list[UUID]:
        page = feed.read(account.id, after=cursor[0], limit=20)
        cursor[0] = page.next
        return [event.id for event in page.events]

    return read


def by_ids(account: Account) -> Callable[[], list[UUID]]:
    last = [UUID(int=0)]

    def read() -> list[UUID]:
        ids = list(
            Event.objects.filter(account=account, id__gt=last[0]).order_by("id").values_list("id", flat=True)[:20]
        )
        last[0] = ids[-1] if ids else last[0]
        return ids

    return read


@pytest.mark.parametrize(("reader", "skips"), [(by_feed, False), (by_ids, True)], ids=["feed", "by-id-alone"])
def test_commits_of_different_lengths_race_a_reader(alice: Account, reader: Any, skips: bool) -> None:
    """Ids and transaction numbers are made before the commit: a reader that follows them alone skips late commits."""
    writers, turns = 6, 25
    writing = threading.Event()
    writing.set()
    dice = [random.Random(number) for number in range(writers)]
    read = reader(alice)
    with open_transaction(lambda: publish(alice, 0)):
        publish(alice, 1)
        seen = read()  # whether a reader comes between two commits is left to chance in the race

    def work(number: int) -> None:
        if number == writers:
            while writing.is_set():
                seen.extend(read())
            return
        for turn in range(turns):
            with transaction.atomic():
                events.publish([events.Told(alice.id, KIND, {"n": number * turns + turn}, timezone.now())])  # type: ignore[arg-type]
                if dice[number].random() < 0.7:
                    time.sleep(dice[number].choice([0, 0.001, 0.02]))
                transaction.set_rollback(dice[number].random() < 0.1)

    def all_of_it(number: int) -> None:
        try:
            work(number)
        finally:
            done.append(number)
            if len(done) == writers:
                writing.clear()

    done: list[int] = []
    at_once(writers + 1, all_of_it)

    written = set(Event.objects.values_list("id", flat=True))

    def is_at_the_end() -> bool:
        seen.extend(page := read())
        return not page and (skips or len(seen) >= len(written))

    eventually(is_at_the_end)
    assert len(written) > writers * turns * 0.7
    assert len(seen) == len(set(seen))
    assert (set(seen) == written) is not skips


# --- Time ------------------------------------------------------------------------------------------------------------


def age(**interval: float) -> None:
    """Move all events into the past."""
    past = timedelta(**interval)
    for event in Event.objects.all():
        created_at = event.created_at - past
        tail = event.id.int & ((1 << 80) - 1)
        id_ = UUID(int=(int(created_at.timestamp() * 1000) << 80) | tail)
        Event.objects.filter(id=event.id).update(id=id_, created_at=created_at)


def test_thirty_days_are_shown(alice: Account, api: ApiClient) -> None:
    publish(alice, 1)
    publish(alice, 2)
    age(days=30.2)
    publish(alice, 3)

    assert numbers(read_all(api, count=1)[0]) == [3]


def test_a_host_whose_clock_is_slow_hides_nobodys_events(
    alice: Account, charlie: Account, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(alice, 1, 2, 3)
    slow = feed.first_id(timezone.now() - timedelta(days=60))
    with monkeypatch.context() as wrong:
        wrong.setattr(events, "uuid7", lambda: slow)
        publish(charlie, 4)
    publish(alice, 5)

    assert numbers(read_all(api, count=4)[0]) == [1, 2, 3, 5]
    list(retention.events(timezone.now() - timedelta(days=32), dry_run=False))
    assert Event.objects.filter(id=slow).exists()


def test_a_cursor_of_before_has_expired(alice: Account, api: ApiClient) -> None:
    publish(alice, 1, 2)
    old = feed.read(alice.id).next
    expired = old._replace(at=old.at - timedelta(days=31)).sign(alice.id)

    answer = api.get(FEED, {"after": expired})

    assert (answer.status_code, answer.json()["error"]) == (410, "cursor_expired")
    assert api.get(FEED, {"after": old._replace(at=old.at - timedelta(days=30)).sign(alice.id)}).status_code == 200


def test_who_waits_for_news_is_never_too_late(alice: Account, api: ApiClient) -> None:
    """The last event may be older than any cursor lives: with each answer, even an empty one, `next` begins anew."""
    publish(alice, 1)
    _, after = read_all(api, count=1)
    age(days=40)
    asked_last = timezone.now() - timedelta(days=29)

    _, after = read_all(api, after=feed.read_cursor(alice.id, after)._replace(at=asked_last).sign(alice.id))

    assert feed.read_cursor(alice.id, after).at > timezone.now() - timedelta(minutes=1)


def test_what_was_written_before_there_was_a_feed_comes_first_by_its_ids(alice: Account, api: ApiClient) -> None:
    publish(alice, *range(5))
    Event.objects.update(position=0)
    publish(alice, 5)

    assert numbers(read_all(api, count=6, limit=2)[0]) == list(range(6))


def test_a_server_that_numbers_transactions_anew_is_gone_on_with(alice: Account, api: ApiClient) -> None:
    """As after a restored backup or a failover: whatever the new numbers are, what the server writes comes later."""
    publish(alice, 1)
    before = feed.read(alice.id, limit=1).next.sign(alice.id)
    position = Event.objects.get().position
    # As if a server had written them before this one, many more transactions ahead.
    lead = 1 << 26
    FeedEra.objects.update(server_started_at=timezone.now() - timedelta(days=1))
    Event.objects.update(position=position + lead)
    lost = feed.Cursor(position + lead + 5, UUID(int=0), timezone.now()).sign(alice.id)  # unknown to the backup

    publish(alice, 2)

    assert Event.objects.latest("created_at").position > position + lead
    assert numbers(read_all(api, count=2)[0]) == [1, 2]
    assert numbers(read_all(api, count=2, after=before)[0]) == [1, 2]
    assert numbers(read_all(api, count=1, after=lost)[0]) == [2]
    assert FeedEra.objects.get().server_started_at == one("SELECT pg_postmaster_start_time()")


def test_a_cursor_of_a_future_that_was_lost_is_refused(alice: Account, api: ApiClient) -> None:
    publish(alice, 1)
    cursor = feed.read(alice.id).next
    ahead = cursor._replace(position=cursor.position + (1 << 45)).sign(alice.id)

    answer = api.get(FEED, {"after": ahead})

    assert (answer.status_code, answer.json()["error"]) == (410, "cursor_expired")


def test_what_a_restored_backup_does_not_have_expires_its_cursors(alice: Account, api: ApiClient) -> None:
    def after_events(count: int) -> str:
        return eventually(lambda: (page := feed.read(alice.id, limit=count)).has_more and page).next.sign(alice.id)

    publish(alice, 1, 2)
    first = after_events(1)
    _, idle = read_all(api, count=2)
    backup_at = one("SELECT clock_timestamp()")
    newest = Event.objects.latest("position").position
    one("SELECT pg_current_xact_id()::text")  # the feed's end moves on
    later = eventually(lambda: (page := feed.read(alice.id)).next.position > newest and page).next.sign(alice.id)
    publish(alice, 3, 4)
    full = after_events(3)
    Event.objects.filter(position__gt=newest).delete()

    feed.note_restored(connection.connection, backup_at)

    for after in full, later:
        answer = api.get(FEED, {"after": after})
        assert (answer.status_code, answer.json()["error"]) == (410, "cursor_expired")
    publish(alice, 5)
    found, after = read_all(api, count=1, after=idle)
    assert numbers(found) == [5], "nothing was lost to who had seen all by then"
    assert read_all(api, after=after)[0] == []
    assert numbers(read_all(api, count=2, after=first)[0]) == [2, 5]
    assert numbers(read_all(api, count=3)[0]) == [1, 2, 5]


# --- What it costs ---------------------------------------------------------------------------------------------------

MANY = """
INSERT INTO webhooks_event (id, account_id, kind, body, created_at)
SELECT gen_random_uuid(), %s, (ARRAY['order.created', 'order.confirmed', 'inventory.updated'])[1 + n %% 3],
    '{"event":"order.created","timestamp":"2026-01-01T00:00:00Z","data":{"n":' || n || '}}', now()
FROM generate_series(1, %s) AS n
"""


@pytest.mark.parametrize("parameters", [{}, {"types": "order.shipped,order.confirmed"}, {"types": "order.shipped"}])
def test_a_page_reads_as_much_as_it_holds_however_many_there_are(
    alice: Account, api: ApiClient, parameters: dict[str, str]
) -> None:
    publish(alice, 1, kind=Event.Kind.ORDER_SHIPPED)
    api.get(FEED, parameters)
    with connection.cursor() as cursor:
        cursor.execute(MANY, [alice.id, 20_000])
        cursor.execute("ANALYZE webhooks_event")
    after = api.get(FEED, {**parameters, "limit": "1"}).json()["next"]

    with CaptureQueriesContext(connection) as queries:
        answer = api.get(FEED, {**parameters, "after": after})

    assert answer.status_code == 200
    assert len(queries) <= 3
    statement = next(each["sql"] for each in queries if "horizon" in each["sql"])
    plan = explain(statement)
    assert "Seq Scan on webhooks_event" not in plan
    assert "event_in_feed" in plan


# --- Changes of one row stand in the order in which they were made ----------------------------------------------------


def of(account: Account, id_: UUID, count: int) -> list[dict[str, Any]]:
    """Return what the feed tells of a product or an order, event by event, once it tells `count` events in all."""

    def told() -> list[dict[str, Any]]:
        found, page = list[feed.FeedEvent](), feed.read(account.id, limit=1)
        while page.events:
            found += page.events
            page = feed.read(account.id, after=page.next, limit=1)
        return [json.loads(event.body) for event in found] if len(found) >= count else []

    ids = {"id": str(id_)}, {"product_id": str(id_)}
    return [body for body in eventually(told) if any(body["data"].items() >= each.items() for each in ids)]


@contextmanager
def waiting_at(row: Product | Order, work: Callable[[], Any]) -> Iterator[None]:
    """Start the work and hold it up at a row that is locked until the block ends."""
    with transaction.atomic():
        type(row)._base_manager.select_for_update().get(pk=row.pk)
        begun = Background(work)
        wait_for_lock()
        yield
    begun.result()


@pytest.fixture
def changed_by_two(alice: Account) -> Product:
    """A product that was changed from 5 to 7, then to 9. The second change took its first lock, and so its number,
    before the first one. Both share one place in the feed, where the second one's ids are lower.
    """
    actor = Actor.of_command("test")
    products = sorted((ProductFactory(account=alice, stock_quantity=5) for _ in range(3)), key=lambda each: each.id)
    updates = [stock.Update(9, id=each.id) for each in products]
    with waiting_at(products[1], lambda: stock.set_quantities(alice.id, updates, actor=actor)):
        single = [stock.Update(7, id=products[2].id)]
        Background(lambda: stock.set_quantities(alice.id, single, actor=actor)).result()
    return products[2]


def test_a_product_that_two_change_has_its_changes_in_their_order(alice: Account, changed_by_two: Product) -> None:
    changes = [event["data"] for event in of(alice, changed_by_two.id, 4)]
    assert [(each["old_quantity"], each["new_quantity"]) for each in changes] == [(5, 7), (7, 9)]


def test_a_recovery_sends_them_in_their_order(
    alice: Account, changed_by_two: Product, register: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "BATCH", 1)
    of(alice, changed_by_two.id, 4)
    recovery.recover(alice.id, register(alice).id, since=timezone.now() - timedelta(hours=1))
    # It is left for later if the feed's horizon goes back for a moment.
    eventually(lambda: [recovery.go_on()] and not Recovery.objects.exists())

    told = [json.loads(each.event.body)["data"] for each in Delivery.objects.order_by("next_attempt_at")]
    changes = [each for each in told if each["product_id"] == str(changed_by_two.id)]
    assert len(told) == 4
    assert [(each["old_quantity"], each["new_quantity"]) for each in changes] == [(5, 7), (7, 9)]


def test_an_order_that_two_move_has_its_moves_in_their_order(alice: Account) -> None:
    actor = Actor(Role.SUPERVISOR, "Samira")
    orders = sorted((make_order(alice) for _ in range(3)), key=lambda order: order.id)
    for order in orders[:2]:
        lifecycle.confirm(order.id, actor=actor)
    shipped = [shipments.Shipment(Status.SHIPPED, order_id=order.id) for order in orders]
    with waiting_at(orders[1], lambda: shipments.record(shipped, actor=actor)):
        Background(lambda: lifecycle.confirm(orders[2].id, actor=actor)).result()

    moves = [event["event"] for event in of(alice, orders[2].id, 9)]
    assert moves == ["order.created", "order.confirmed", "order.shipped"]

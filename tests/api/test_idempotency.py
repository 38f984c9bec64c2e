"""`Idempotency-Key`: the same request again gets the same answer again, and nothing is imported twice."""

import json
import time
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.db.models import F

from codservice.api import idempotency
from codservice.api.models import IdempotencyRecord
from codservice.api.tasks import forget_idempotency_keys
from codservice.errors import Refused
from codservice.retention import DatabaseClock
from orders import importing
from orders.models import Order, OrderItem
from tests.factories import make_order, order_body
from tests.harness.background import Background, at_once
from tests.harness.client import ApiClient
from tests.harness.database import database_url, one, wait_for_lock

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db


def send(client, key, body=None, path=ORDERS):
    return client.post(path, order_body() if body is None else body, headers={"Idempotency-Key": key})


def test_a_repeated_import_gets_the_first_answer_to_the_byte(api):
    first, again = send(api, "1"), send(api, "1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["Content-Type"] == "application/json"
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert Order.objects.count() == 1


def test_a_repeated_answer_says_again_where_the_order_can_be_read(api):
    first, again = send(api, "1"), send(api, "1")
    assert again.headers["Location"] == first.headers["Location"] == f"{ORDERS}/{first.json()['id']}"


def test_a_batch_is_at_no_place_and_a_refusal_neither(api):
    batch = [send(api, "1", {"orders": [order_body()]}, f"{ORDERS}/batch") for _ in range(2)]
    refused = [send(api, "2", order_body(items=[])) for _ in range(2)]
    assert [answer.status_code for answer in batch + refused] == [201, 201, 422, 422]
    assert not any("Location" in answer.headers for answer in batch + refused)


def test_the_answer_stays_the_first_one_when_the_order_has_moved_on(api):
    first = send(api, "1")
    api.post(f"{ORDERS}/{first.json()['id']}/cancel")
    assert send(api, "1").content == first.content


def test_an_answer_that_is_forgotten_while_it_is_overwritten_is_no_error(api, alice, monkeypatch):
    order, kept = send(api, "1").json(), IdempotencyRecord.objects.all()
    overwritten = idempotency._overwritten
    monkeypatch.setattr(idempotency, "_overwritten", lambda data, now: kept.delete() and overwritten(data, now))
    idempotency.overwrite(alice.id, [order["id"]], lambda id_: {"notes": ""})
    assert not kept.exists()


def test_to_overwrite_many_orders_kept_answers_are_gone_through_as_often_as_for_one(api, alice):
    """Once. Otherwise erasing a customer with 200 orders would take half a minute, and then fail."""
    order = send(api, "1").json()
    sql = (
        "INSERT INTO api_idempotencyrecord (account_id, key, fingerprint, status, body, created_at)"
        " SELECT account_id, 'k' || n, fingerprint, status, convert_to(replace(convert_from(body, 'UTF8'), %s,"
        " gen_random_uuid()::text), 'UTF8'), created_at FROM api_idempotencyrecord, generate_series(1, 5000) n"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [order["id"]])

    def seconds(count):
        named = {order["id"]: {"notes": "x"}} | {str(uuid4()): {"notes": "y"} for _ in range(count - 1)}
        began = time.perf_counter()
        idempotency.overwrite(alice.id, named, named.__getitem__)
        return time.perf_counter() - began

    few, many = (min(seconds(count) for _ in range(3)) for count in (1, 500))
    assert many < few * 10
    said = [json.loads(bytes(record.body))["notes"] for record in IdempotencyRecord.objects.order_by("id")]
    assert (said[0], {*said[1:]}) == ("x", {order["notes"]})


def test_without_a_key_every_request_imports(api):
    assert [api.post(ORDERS, order_body()).status_code for _ in range(2)] == [201, 201]
    assert Order.objects.count() == 2


def test_the_same_json_in_another_order_and_spacing_is_the_same_body(api):
    body = order_body()
    first = send(api, "1", json.dumps(body).encode())
    turned = json.dumps(dict(reversed(body.items())), indent=3).encode()
    assert send(api, "1", turned).content == first.content


@pytest.mark.parametrize("change", [{"notes": "x"}, {"total_amount": 1}, {"items": []}, {"unknown": 1}])
def test_another_body_is_refused_and_imports_nothing(api, change):
    send(api, "1")
    answer = send(api, "1", order_body(**change))
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_failed")
    assert answer.json()["errors"].keys() == {"Idempotency-Key"}
    assert Order.objects.count() == 1
    assert send(api, "1").status_code == 201, "the first answer is still kept"


def test_the_same_body_to_another_address_is_another_request(api):
    send(api, "1")
    answer = send(api, "1", path="/api/v1/orders/batch")
    assert answer.status_code == 422
    said = "Was used for another request. Send a new request with a new key."
    assert answer.json()["errors"] == {"Idempotency-Key": [said]}


@pytest.mark.parametrize(
    ("first", "second"),
    [(5.5, "5.5"), (b"5.5", b"5.50"), (1, "1"), (1, b"1.0"), (1, True), (None, "None"), ([], {}), ("5.5", ["5.5"]),
     (10**30, str(10**30)), ({"a": 1.5}, {"a": "1.5"})],
)  # fmt: skip
def test_a_number_a_text_and_anything_else_are_different_bodies(api, first, second):
    """A body refused for a type and then sent right must not get the old refusal."""

    def sent(value):
        text = value.decode() if isinstance(value, bytes) else json.dumps(value)
        return json.dumps(order_body(source_="SLOT")).replace('"SLOT"', text).encode()

    assert send(api, "1", sent(first)).status_code == 201
    assert send(api, "1", sent(second)).json()["errors"].keys() == {"Idempotency-Key"}
    assert send(api, "1", sent(first)).headers["Idempotent-Replayed"] == "true"


def test_a_refusal_is_an_answer_and_is_kept(api, alice):
    body = order_body(external_id="1")
    make_order(alice, external_id="1")
    first = send(api, "1", body)
    Order.objects.all().delete()
    again = send(api, "1", body)
    assert (first.status_code, again.status_code) == (422, 422)
    assert again.content == first.content
    assert again.headers["Idempotent-Replayed"] == "true"


def test_a_refusal_that_may_pass_is_not_kept(api, monkeypatch):
    class TooSoon(Refused):
        status = 409

    def refuse(*args, **kwargs):
        raise TooSoon("Not now.")

    with monkeypatch.context() as patch:
        patch.setattr(importing, "import_orders", refuse)
        assert send(api, "1").status_code == 409
    answer = send(api, "1")
    assert (answer.status_code, "Idempotent-Replayed" in answer.headers) == (201, False)


def test_a_body_that_is_no_json_is_not_an_answer_worth_keeping(api):
    assert send(api, "1", b"{").status_code == 400
    assert send(api, "1").status_code == 201


def test_keys_are_an_accounts_own_whichever_api_key_is_used(alice, api, api_for, charlies_api):
    first = send(api, "1")
    assert send(api_for(alice), "1").content == first.content
    charlies = send(charlies_api, "1")
    assert charlies.json()["id"] != first.json()["id"]
    assert send(charlies_api, "2", order_body(notes="Charlie's")).status_code == 201


@pytest.mark.parametrize("key", ["a", "x" * 255, "!~", "0199d9a0-0000-7000-8000-000000000000", '{"a":1}', "'--"])
def test_255_visible_ascii_characters_make_a_key(api, key):
    assert send(api, key).status_code == 201
    assert send(api, key).headers["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "é", "مفتاح", "a b", "a\tb", "a\x00", "a\n", "\x7f", "١"])
def test_anything_else_is_refused(api, key):
    answer = send(api, key)
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["Idempotency-Key"])
    assert not Order.objects.exists()
    assert not IdempotencyRecord.objects.exists()


# --- 24 hours -------------------------------------------------------------------------------------------------------


@pytest.fixture
def trusted_clock(monkeypatch):
    monkeypatch.setattr("codservice.retention.database_clock", DatabaseClock(settling=timedelta(0)))


def age(hours):
    IdempotencyRecord.objects.update(created_at=F("created_at") - timedelta(hours=hours))


def test_a_key_is_kept_for_24_hours(api, trusted_clock):
    first = send(api, "1")
    age(23.99)
    assert send(api, "1").content == first.content
    assert forget_idempotency_keys() == 0


def test_after_24_hours_a_key_is_new_even_when_the_cleaning_is_late(api):
    first = send(api, "1")
    age(24.01)
    second = send(api, "1", order_body(notes="another"))
    assert second.status_code == 201
    assert second.json()["id"] != first.json()["id"]
    assert send(api, "1", order_body(notes="another")).content == second.content


@pytest.mark.django_db(transaction=True)
def test_a_key_that_is_used_anew_and_an_erasure_do_not_wait_for_each_other(api, alice):
    body = order_body(external_id="A1")
    order_id = send(api, "1", body).json()["id"]
    age(24.01)
    with transaction.atomic():
        Order.objects.filter(id=order_id).update(customer_name="-")
        sending = Background(lambda: send(api, "1", body))
        wait_for_lock()
        idempotency.overwrite(alice.id, [order_id], lambda id_: {"notes": None})
    assert sending.result().status_code == 422  # its external_id is taken


def test_old_keys_are_forgotten(api, trusted_clock):
    send(api, "1")
    send(api, "2")
    age(24.01)
    send(api, "3")
    assert forget_idempotency_keys() == 2
    assert list(IdempotencyRecord.objects.values_list("key", flat=True)) == ["3"]


def test_nothing_is_forgotten_by_a_clock_that_may_be_wrong(api, monkeypatch):
    """Otherwise a retry would make the order again once the clock is set right."""
    monkeypatch.setattr("codservice.retention.database_clock", DatabaseClock())
    send(api, "1")
    age(24.01)
    assert forget_idempotency_keys() == 0
    assert IdempotencyRecord.objects.exists()


# --- Faults ---------------------------------------------------------------------------------------------------------


def test_a_fault_of_ours_leaves_nothing_behind_and_is_not_kept(api, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr("orders.bodies.imported", lambda row: 1 / 0)
        assert send(api, "1").status_code == 500
    assert not Order.objects.exists()
    assert not OrderItem.objects.exists()
    assert not IdempotencyRecord.objects.exists()
    answer = send(api, "1")
    assert (answer.status_code, "Idempotent-Replayed" in answer.headers) == (201, False)


def test_a_database_that_goes_away_is_not_kept(api, monkeypatch):
    def away(*args):
        raise OperationalError("gone")

    with monkeypatch.context() as broken:
        broken.setattr(idempotency, "_keep", away)
        assert send(api, "1").status_code == 503
    assert not Order.objects.exists()
    assert send(api, "1").status_code == 201


# --- Several requests at once ---------------------------------------------------------------------------------------


BODIES = {"an order": order_body(), "a numbered order": order_body(external_id="1"), "a refusal": order_body(items=[])}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_20_at_once_are_one_import(alice, api_for, body):
    key = api_for(alice).defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    answers = at_once(20, lambda _: send(ApiClient(key), "1", body))
    expected = 422 if not body["items"] else 201
    assert {answer.status_code for answer in answers} <= {expected, 409}
    assert len({answer.content for answer in answers if answer.status_code == expected}) == 1
    assert {answer.json()["error"] for answer in answers if answer.status_code == 409} <= {"idempotency_conflict"}
    assert Order.objects.count() == (0 if expected == 422 else 1)
    assert IdempotencyRecord.objects.count() == 1
    assert send(ApiClient(key), "1", body).status_code == expected


@pytest.mark.django_db(transaction=True)
def test_while_the_first_is_running_the_second_is_told_so(alice, api_for, monkeypatch):
    key = api_for(alice).defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    original, inner = importing.import_orders, []

    def slow(*args, **kwargs):
        inner.extend(at_once(1, lambda _: send(ApiClient(key), "1")))
        return original(*args, **kwargs)

    monkeypatch.setattr(importing, "import_orders", slow)
    assert send(ApiClient(key), "1").status_code == 201
    (answer,) = inner
    assert (answer.status_code, answer.json()["error"]) == (409, "idempotency_conflict")
    assert Order.objects.count() == 1


def test_no_key_makes_a_lock_of_ours(api, monkeypatch):
    """PostgreSQL keeps locks of two numbers (objsubid 2) apart from those of one, which all others here are."""
    original, held = importing.import_orders, []

    def looking(*args, **kwargs):
        held.append(
            one("SELECT array_agg(objsubid) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
        )
        return original(*args, **kwargs)

    monkeypatch.setattr(importing, "import_orders", looking)
    assert send(api, "1").status_code == 201
    assert held == [[2]]


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_was_committed_between_look_and_lock_is_replayed(alice, api_for, monkeypatch):
    key = api_for(alice).defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    first = []

    def claim_too_late(*args):
        """Nothing was kept when we looked. Then the other one finished, and the lock is free again."""
        monkeypatch.undo()
        first.extend(at_once(1, lambda _: send(ApiClient(key), "1")))

    monkeypatch.setattr(idempotency, "_claim", claim_too_late)
    second = send(ApiClient(key), "1")
    assert second.content == first[0].content
    assert second.headers["Idempotent-Replayed"] == "true"
    assert Order.objects.count() == 1


WRITTEN = ("orders_order", "orders_orderitem", "orders_statuschange", "orders_ordercount", "api_idempotencyrecord")


@pytest.mark.django_db(transaction=True)
def test_order_lines_history_count_and_answer_are_one_commit(api):
    assert send(api, "1").status_code == 201
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(f"SELECT xmin::text FROM {table}" for table in WRITTEN))
        transactions = cursor.fetchall()
    assert len(transactions) == len(WRITTEN)
    assert len(set(transactions)) == 1


@pytest.mark.django_db(transaction=True)
def test_a_column_that_a_migration_adds_beside_it_breaks_nothing_that_was_prepared(api):
    def send(key):
        return api.post("/api/v1/orders", order_body(), headers={"Idempotency-Key": key}).status_code

    assert [send("1"), send("2")] == [201, 201]  # the lookup is prepared the second time
    with psycopg.connect(database_url(), autocommit=True) as other:
        try:
            other.execute("ALTER TABLE api_idempotencyrecord ADD COLUMN later integer")
            assert [send("2"), send("3")] == [201, 201]
        finally:
            other.execute("ALTER TABLE api_idempotencyrecord DROP COLUMN later")

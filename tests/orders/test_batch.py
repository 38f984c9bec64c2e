"""POST /api/v1/orders/batch: many imports in one request, each with its own answer."""

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from orders.models import Order, OrderItem
from tests.factories import AccountFactory, ProductFactory, make_order, order_body, order_line
from tests.harness.background import at_once
from tests.harness.client import ApiClient, new_key

BATCH = "/api/v1/orders/batch"
pytestmark = pytest.mark.django_db


def send(api, *orders, **headers):
    return api.post(BATCH, {"orders": list(orders)}, headers=headers)


def places(answer):
    """Return which entries were created, and which were refused with which error."""
    body = answer.json()
    return [each["index"] for each in body["created"]], {each["index"]: each["error"] for each in body["errors"]}


def test_all_are_imported_in_the_order_sent(alice, api):
    robe = ProductFactory(account=alice, name="Robe", price=2500)
    lines = [order_line(product_id=robe.id, quantity=2)]

    answer = send(api, order_body(external_id="1"), order_body(), order_body(external_id="3", items=lines))

    assert answer.status_code == 201
    created = answer.json()["created"]
    assert answer.json()["errors"] == []
    assert [(each["index"], each["external_id"], each["status"]) for each in created] == [
        (0, "1", "pending_confirmation"),
        (1, None, "pending_confirmation"),
        (2, "3", "pending_confirmation"),
    ]
    ids = [each["id"] for each in created]
    assert ids == sorted(ids) == [str(id_) for id_ in Order.objects.order_by("id").values_list("id", flat=True)]
    assert OrderItem.objects.get(order_id=ids[2]).unit_price == 2500
    assert api.get(f"/api/v1/orders/{ids[0]}").json()["external_id"] == "1"


def test_each_entry_is_in_exactly_one_list_with_all_that_is_wrong_with_it(alice, charlie, api):
    taken, theirs = make_order(alice, external_id="taken"), ProductFactory(account=charlie)
    make_order(charlie, external_id="theirs")
    answer = send(
        api,
        order_body(external_id="a"),
        order_body(external_id="b", customer_phone="1", items=[order_line(product_id=theirs.id, quantity=0)]),
        order_body(external_id="taken"),
        order_body(external_id="a"),
        order_body(external_id="taken", customer_name=""),
        order_body(external_id="theirs"),
        None,
        "order",
        {},
        order_body(external_id=7),
    )

    assert answer.status_code == 207
    created, refused = places(answer)
    assert created == [0, 5]
    wrong = dict.fromkeys((1, 6, 7, 8, 9), "validation_failed")
    assert refused == wrong | dict.fromkeys((2, 3, 4), "duplicate")
    assert list(refused) == sorted(refused)
    errors = {each["index"]: each for each in answer.json()["errors"]}
    assert errors[1]["errors"].keys() == {"customer_phone", "items.0.quantity", "items.0.product_id"}
    assert [errors[index]["external_id"] for index in (1, 2, 3, 6, 9)] == ["b", "taken", "a", None, None]
    assert errors[2]["id"] == errors[4]["id"] == str(taken.id)
    assert errors[3]["id"] == answer.json()["created"][0]["id"], "that of the entry before it"
    assert errors[4]["errors"].keys() == {"customer_name", "external_id"}
    assert all("id" not in errors[index] for index in wrong)
    assert all(each["message"] for each in errors.values())


def test_what_is_no_object_has_the_empty_path(api):
    answer = send(api, order_body(), 5)
    assert [each["errors"] for each in answer.json()["errors"]] == [{"": ["Must be an object."]}]


def test_a_duplicate_of_an_order_that_is_gone_by_now_names_none(alice, api):
    taken = make_order(alice, external_id="taken")

    def delete_before_it_is_looked_for(execute, sql, *args):
        if "AS wanted" in sql:
            Order.objects.filter(id=taken.id).delete()
        return execute(sql, *args)

    with connection.execute_wrapper(delete_before_it_is_looked_for):
        answer = send(api, order_body(external_id="taken"), order_body())

    (refused,) = answer.json()["errors"]
    assert (refused["error"], refused["id"]) == ("duplicate", None)
    assert refused["message"].startswith("The order that had this external_id is gone by now. Send this one again")
    assert send(api, order_body(external_id="taken")).status_code == 201


def test_a_mended_entry_after_its_bad_twin_is_no_duplicate_and_neither_is_the_twin(api):
    answer = send(api, order_body(external_id="x", customer_name=""), order_body(external_id="x"))
    assert places(answer) == ([1], {0: "validation_failed"})


def test_when_none_is_imported_the_request_is_refused_and_says_why_of_each(api):
    first = send(api, order_body(external_id="1"), order_body(external_id="2")).json()["created"]

    answer = send(api, order_body(external_id="1"), order_body(external_id="2"), order_body(customer_name=""))

    assert (answer.status_code, answer.json()["error"]) == (422, "validation_failed")
    assert places(answer) == ([], {0: "duplicate", 1: "duplicate", 2: "validation_failed"})
    assert [each.get("id") for each in answer.json()["errors"]] == [first[0]["id"], first[1]["id"], None]
    assert Order.objects.count() == 2


@pytest.mark.parametrize(
    "orders", [[], None, {}, "x", 5, [order_body()] * 101], ids=["none", "null", "object", "text", "number", "101"]
)
def test_what_is_no_batch_is_refused_as_a_whole(api, orders):
    answer = api.post(BATCH, {"orders": orders})
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_failed")
    assert answer.json()["errors"].keys() == {"orders"}
    assert "created" not in answer.json()
    assert api.post(BATCH, {}).json()["errors"].keys() == {"orders"}
    assert not Order.objects.exists()


def test_an_idempotency_key_covers_the_whole_batch(api):
    orders = [order_body(external_id="1"), order_body(customer_name="")]
    first, again = (send(api, *orders, **{"Idempotency-Key": "night"}) for _ in range(2))
    assert (first.status_code, first.content) == (again.status_code, again.content)
    assert first.status_code == 207
    assert again.headers["Idempotent-Replayed"] == "true"
    assert send(api, orders[0], **{"Idempotency-Key": "night"}).json()["errors"].keys() == {"Idempotency-Key"}
    refused = [send(api, orders[1], **{"Idempotency-Key": "bad"}) for _ in range(2)]
    assert [answer.status_code for answer in refused] == [422, 422]
    assert refused[0].content == refused[1].content
    assert "Idempotent-Replayed" in refused[1].headers
    assert Order.objects.count() == 1


def test_scope(alice, api_for):
    assert send(api_for(alice, scopes=["orders:read"]), order_body()).status_code == 403


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("count", [2, 100])
def test_a_batch_costs_at_most_8_statements_whatever_its_size(alice, api, count):
    api.get("/api/v1/nothing")
    product = ProductFactory(account=alice)
    make_order(alice, external_id="0")
    orders = [
        order_body(external_id=str(number), items=[order_line(product_id=product.id, quantity=1)] * 3)
        for number in range(count)
    ]
    with CaptureQueriesContext(connection) as statements:
        answer = send(api, *orders, **{"Idempotency-Key": "1"})
    assert answer.status_code == 207
    assert len(places(answer)[0]) == count - 1
    assert len(statements) <= 8, [each["sql"] for each in statements]
    assert sum("INSERT INTO orders_order " in each["sql"] for each in statements) == 1


@pytest.mark.django_db(transaction=True)
def test_batches_that_share_orders_never_lock_each_other_out_and_import_each_once():
    key = new_key(AccountFactory(rate_limit=1_000_000))
    numbers = [str(uuid4()) for _ in range(40)]

    def send_shuffled(number):
        shared = numbers[number:] + numbers[:number]
        return send(ApiClient(key), *(order_body(external_id=each) for each in shared[:: -1 if number % 2 else 1]))

    answers = at_once(6, send_shuffled)

    assert {answer.status_code for answer in answers} <= {201, 207, 422}
    imported = [each["external_id"] for answer in answers for each in answer.json()["created"]]
    assert sorted(imported) == sorted(numbers)
    ids = dict(Order.objects.values_list("external_id", "id"))
    for answer in answers:
        for each in answer.json()["errors"]:
            assert (each["error"], each["id"]) == ("duplicate", str(ids[each["external_id"]]))

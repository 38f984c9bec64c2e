"""How many statements each call may cost, BEGIN and COMMIT included. It does not grow with what is requested."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codservice.accounts import authentication
from codservice.accounts.actor import Actor, Role
from orders import lifecycle
from tests.factories import ProductFactory, UserFactory, make_order, order_body

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def api(alice, api_for):
    """Alice's client, whose key has just been looked up."""
    client = api_for(alice)
    assert client.get("/api/v1/nothing").status_code == 404
    return client


def statements(call, status):
    """Return the statements of a request whose key is cached, as it is under load."""
    with CaptureQueriesContext(connection) as queries:
        answer = call()
    assert answer.status_code == status, answer.content
    return [query["sql"] for query in queries]


def about_the_event(sql):
    return "webhooks_" in sql


@pytest.mark.parametrize("items", [1, 100])
def test_an_import_with_everything_costs_6_statements_at_most(alice, api, items):
    products = [ProductFactory(account=alice) for _ in range(items)]
    body = order_body(external_id="1", items=[{"product_id": str(product.id), "quantity": 1} for product in products])
    sent = statements(lambda: api.post(ORDERS, body, headers={"Idempotency-Key": "1"}), 201)
    assert len(sent) <= 6, sent
    assert sum(sql.startswith("COMMIT") for sql in sent) == 1


@pytest.mark.parametrize("items", [1, 100])
def test_a_plain_import_costs_one_statement(api, items):
    sent = statements(lambda: api.post(ORDERS, order_body(items=order_body()["items"] * items)), 201)
    assert len(sent) == 1, sent


def test_to_look_the_key_up_costs_one_more_once_a_second(api):
    authentication._trusted.clear()
    assert len(statements(lambda: api.post(ORDERS, order_body()), 201)) == 2
    assert len(statements(lambda: api.post(ORDERS, order_body()), 201)) == 1


def test_a_list_costs_4_statements_at_most(alice, api):
    for number in range(30):
        make_order(alice, external_id=str(number))
    for query in (
        "",
        "?per_page=100",
        "?status=confirmed,pending_confirmation",
        "?phone=0550123456&sort=updated_at",
    ):
        assert len(statements(lambda query=query: api.get(f"{ORDERS}{query}"), 200)) <= 4


def test_a_list_by_creation_begins_where_the_last_changes_end(alice, api):
    """Without the bound it would be read from the newest order on. The count needs none and has an index by changes."""
    order = make_order(alice)
    for sort, bound in (("", True), ("&sort=created_at", True), ("&sort=-updated_at", False)):
        query = f"updated_to={order.updated_at.date() + timedelta(days=1)}{sort}"
        count, page = (
            [sql for sql in statements(lambda query=query: api.get(f"{ORDERS}?{query}"), 200) if word in sql]
            for word in ("COUNT(", "LIMIT")
        )
        assert [['"created_at" <' in sql for sql in found] for found in (count, page)] == [[False], [bound]], sort


def test_a_search_is_a_transaction_with_a_turn_and_a_time_of_its_own(alice, api):
    make_order(alice)
    sent = statements(lambda: api.get(f"{ORDERS}?q=a&phone=0550123456&sort=updated_at"), 200)
    assert len(sent) <= 6
    assert (sent[0], sent[-1]) == ("BEGIN", "COMMIT")


def test_a_detail_costs_the_same_however_much_has_happened(alice, api):
    order = make_order(alice)
    lean = len(statements(lambda: api.get(f"{ORDERS}/{order.id}"), 200))
    agent = UserFactory()
    for _ in range(20):
        lifecycle.add_call_note(
            order.id,
            lifecycle.Call(agent=agent, outcome="busy", callback_at=datetime.now().astimezone() + timedelta(1)),
        )
    lifecycle.confirm(order.id, actor=Actor(Role.AGENT, "Amel"))
    assert len(statements(lambda: api.get(f"{ORDERS}/{order.id}"), 200)) == lean <= 6


def test_a_cancel_costs_6_statements_at_most_besides_its_event(alice, api):
    """BEGIN, lock, change, history, COMMIT, detail."""
    order = make_order(alice)
    sent = statements(lambda: api.post(f"{ORDERS}/{order.id}/cancel"), 200)
    assert len([sql for sql in sent if not about_the_event(sql)]) <= 6, sent
    assert sum(sql.startswith("COMMIT") for sql in sent) == 1


def test_a_refused_request_costs_nothing(api):
    assert statements(lambda: api.post(ORDERS, {}), 422) == []
    assert statements(lambda: api.get(f"{ORDERS}?page=0&status=x"), 422) == []
    assert statements(lambda: api.get("/api/v1/nothing"), 404) == []

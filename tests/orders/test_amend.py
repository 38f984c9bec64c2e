"""PATCH /api/v1/orders/{id}: what a merchant changes while the order waits for its call."""

import json
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.desk import claims, customer, decisions
from codservice.accounts.actor import Actor, Role
from orders import editing, lifecycle, serializers
from orders.models import Order, OrderEdit, OrderItem
from orders.templatetags.orders import edits_in_words
from tests.factories import AgentFactory, ProductFactory, make_order, order_line
from tests.harness.background import at_once
from tests.harness.client import ApiClient, new_key
from tests.orders.moves import edits

pytestmark = pytest.mark.django_db
SAMIRA = Actor(Role.AGENT, "Samira")


@pytest.fixture
def order(alice):
    """Two robes and a scarf, to Bab Ezzouar in Alger."""
    items = [
        order_line(quantity=2, product_name="Robe", unit_price=1000, attributes={"taille": "M"}),
        order_line(quantity=1, product_name="Foulard", unit_price=500),
    ]
    return make_order(alice, items=items, customer_commune="Bab Ezzouar", total_amount=2900, shipping_fee=400)


def path(order):
    return f"/api/v1/orders/{order.id}"


def patch(api, order, **changes):
    return api.patch(path(order), changes)


def errors(answer):
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_failed"), answer.content
    return answer.json()["errors"]


def test_everything_that_may_be_changed_is_and_is_written_down(alice, api, order):
    robe = ProductFactory(account=alice, name="Kaftan", sku="KAF", price=Decimal("7500.00"))
    answer = patch(
        api,
        order,
        customer_name="Nadia Haddad",
        customer_phone="+213 661 11 22 33",
        customer_phone_2="021 55 66 77",
        customer_address="5 rue des Oliviers",
        customer_wilaya="Oran",
        customer_commune="Es Senia",
        delivery_type="desk",
        notes="Appeler après 17 h",
        shipping_fee=250,
        total_amount="7750.00",
        items=[order_line(product_id=robe.id, quantity=1)],
        external_id="not taken",
        source="nor this",
        status="confirmed",
    )

    assert answer.status_code == 200
    body = answer.json()
    assert body == api.get(path(order)).json()
    assert answer.headers["ETag"] == api.get(path(order)).headers["ETag"]
    assert body["customer"] == {
        "name": "Nadia Haddad",
        "phone": "+213 661 11 22 33",
        "phone_2": "021 55 66 77",
        "address": "5 rue des Oliviers",
        "wilaya": "31",
        "commune": body["customer"]["commune"],
        "wilaya_name": "Oran",
        "commune_name": "Es Senia",
    }
    assert (body["delivery_type"], body["notes"], body["shipping_fee"]) == ("desk", "Appeler après 17 h", 250)
    assert (body["total_amount"], body["status"]) == (7750, "pending_confirmation")
    assert (body["external_id"], body["source"]) == (None, None)
    (line,) = body["items"]
    assert (line["product_name"], line["sku"], line["unit_price"]) == ("Kaftan", "KAF", 7500)
    order.refresh_from_db()
    assert (order.version, order.phone_e164, order.phone_2_e164) == (2, "+213661112233", "+21321556677")
    assert order.updated_at == OrderEdit.objects.latest("at").at > order.created_at
    written = edits(order)
    assert written["customer_phone"] == ("0550123456", "+213 661 11 22 33")
    assert written["customer_phone_2"] == ("", "021 55 66 77")
    assert written["delivery_type"] == ("home", "desk")
    assert written["total_amount"] == ("2900.00", "7750.00")
    assert written["items.0.product_name"] == ("Robe", "Kaftan")
    assert written["items.0.attributes"] == ("taille: M", "")
    assert written["items.1"] == ("1 × Foulard, 500.00", "")
    assert not any(name.endswith("e164") for name in written)
    assert {edit["actor"] for edit in body["edits"]} == {"API key Test"}


CHANGES = {
    "customer_name": "Nadia Haddad",
    "customer_phone": "0661 11 22 33",
    "customer_phone_2": "021 55 66 77",
    "customer_address": "5 rue des Oliviers",
    "customer_wilaya": "Oran",
    "customer_commune": "Bab El Oued",
    "delivery_type": "desk",
    "notes": "Appeler après 17 h",
    "shipping_fee": 250,
    "total_amount": 7750,
    "items": [{"product_name": "Sac", "quantity": 1, "unit_price": 100}],
}


@pytest.mark.parametrize("field", serializers.OrderChanges().get_fields())
def test_each_field_is_taken(api, order, field):
    beside = {"customer_commune": None} if field == "customer_wilaya" else {}

    answer = patch(api, order, **{field: CHANGES[field]}, **beside)

    assert answer.status_code == 200, answer.content
    assert field in {name.partition(".")[0] for name in edits(order)}
    told = {what for entry in edits_in_words(order.edits.all()) for what, _old, _new in entry.changes}
    assert told.isdisjoint(edits(order)), "people read a field's own name"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"customer_name": "Amine Benali", "customer_wilaya": 16, "customer_commune": "باب الزوار"},
        {"total_amount": "2900", "shipping_fee": 400.00, "delivery_type": None, "notes": None},
        {"customer_phone_2": None, "unknown": 1},
        {
            "items": [
                {"product_name": "Robe", "quantity": 2, "unit_price": "1000.0", "attributes": {"taille": "M"}},
                {"product_name": "Foulard", "quantity": 1, "unit_price": 500},
            ]
        },
    ],
    ids=lambda changes: ",".join(changes) or "nothing",
)
def test_nothing_different_is_no_change(api, order, changes):
    lines = set(order.items.values_list("id", flat=True))
    before = api.get(path(order)).json()
    assert patch(api, order, **changes).json() == before
    assert Order.objects.get().version == 1
    assert set(order.items.values_list("id", flat=True)) == lines


def test_details_that_read_alike_are_a_change_all_the_same(api, order):
    """`M, couleur: rouge` as one detail and as two reads the same in the history, but is another order."""
    line = {"product_name": "Robe", "quantity": 1, "unit_price": 500}
    patch(api, order, items=[line | {"attributes": {"taille": "M, couleur: rouge"}}])
    before = api.get(path(order)).json()

    after = patch(api, order, items=[line | {"attributes": {"taille": "M", "couleur": "rouge"}}]).json()

    assert after["items"][0]["attributes"] == {"taille": "M", "couleur": "rouge"}
    assert after["updated_at"] > before["updated_at"]
    assert Order.objects.get().version == 3
    assert [edit["field"] for edit in after["edits"]][len(before["edits"]) :] == ["items.0.attributes"]


def test_what_is_not_sent_stays_and_null_is_the_default_of_an_import(api, order):
    patch(api, order, notes="Sonnez", customer_phone_2="0661112233", delivery_type="desk")
    body = patch(api, order, notes=None, customer_phone_2=None, delivery_type=None, shipping_fee=None).json()
    assert (body["notes"], body["customer"]["phone_2"], body["delivery_type"]) == ("", None, "home")
    assert (body["shipping_fee"], body["total_amount"]) == (0, 2900), "the total is what was agreed, until it is sent"
    assert body["customer"]["name"] == "Amine Benali"
    assert len(body["items"]) == 2


def test_all_that_is_wrong_is_said_at_once_by_the_rules_of_an_import(charlie, api, order):
    theirs = ProductFactory(account=charlie)
    answer = patch(
        api,
        order,
        customer_name=None,
        customer_phone="123",
        customer_phone_2="1",
        customer_address=" ",
        customer_wilaya="Atlantis",
        delivery_type="pigeon",
        notes="x" * 2001,
        shipping_fee=-1,
        total_amount="1.001",
        items=[{"product_id": str(theirs.id), "quantity": 1}, {"quantity": 0}],
    )
    assert errors(answer).keys() == {
        *("customer_name", "customer_phone", "customer_phone_2", "customer_address", "customer_wilaya"),
        *("delivery_type", "notes", "shipping_fee", "total_amount", "items.0.product_id", "items.1.quantity"),
        *("items.1.product_name", "items.1.unit_price"),
    }
    assert errors(patch(api, order, items=[])).keys() == errors(patch(api, order, items=None)).keys() == {"items"}
    assert errors(patch(api, order, items=[order_line(product_id=uuid4(), quantity=1)])).keys() == {
        "items.0.product_id"
    }
    assert Order.objects.get().version == 1
    assert edits(order) == {}


def test_wilaya_and_commune_are_read_together(api, order):
    assert errors(patch(api, order, customer_wilaya="Oran")).keys() == {"customer_commune"}
    assert errors(patch(api, order, customer_commune="Es Senia")).keys() == {"customer_commune"}
    assert errors(patch(api, order, customer_wilaya="Oran", customer_commune="Bab Ezzouar")).keys() == {
        "customer_commune"
    }
    assert errors(patch(api, order, customer_wilaya="Oran", customer_name="")).keys() == {
        *("customer_commune", "customer_name")
    }

    assert patch(api, order, customer_commune="El Harrach").json()["customer"]["commune_name"] == "El Harrach"
    away = patch(api, order, customer_wilaya="Oran", customer_commune=None).json()["customer"]
    assert (away["wilaya"], away["commune"], Order.objects.get().customer_commune) == ("31", None, "")
    assert patch(api, order, customer_wilaya=16).json()["customer"]["wilaya"] == "16"


def test_spaces_around_a_place_do_not_matter(api, order):
    around = " " * 300
    answer = patch(api, order, customer_wilaya=f"{around}Oran{around}", customer_commune=f"{around}Es Senia")
    assert (answer.status_code, answer.json()["customer"]["commune_name"]) == (200, "Es Senia")
    assert Order.objects.get().customer_wilaya == "Oran"


def test_a_commune_that_lies_in_both_wilayas_stays(alice, api):
    order = make_order(alice, customer_wilaya="28", customer_commune="Bou Saâda")
    place = patch(api, order, customer_wilaya="68").json()["customer"]
    assert (place["wilaya"], place["commune_name"]) == ("68", "Bou Saada")
    assert Order.objects.get().customer_commune == "Bou Saâda"
    assert edits(order).keys() == {"customer_wilaya", "wilaya_code"}


def test_what_is_written_down_of_long_texts_has_an_end(api, order):
    patch(api, order, notes="a" * 2000)
    old, new = edits(order)["notes"]
    assert (old, len(new), new[-1]) == ("", 500, "…")
    assert Order.objects.get().notes == "a" * 2000


def test_only_while_it_is_pending(api, order):
    lifecycle.confirm(order.id, actor=SAMIRA)
    for changes in ({"customer_name": "B"}, {"customer_name": ""}, {}):
        answer = patch(api, order, **changes)
        assert (answer.status_code, answer.json()["error"]) == (422, "order_not_editable")
        assert answer.json()["message"].startswith("Already confirmed by Samira")


def test_what_is_written_down_of_an_order_has_an_end(api, order, monkeypatch):
    monkeypatch.setattr(editing, "MOST_EDITS", 3)
    monkeypatch.setattr(editing, "FEW_CHANGES", 1)
    for notes in ("a", "b"):
        assert patch(api, order, notes=notes).status_code == 200
    lines = [line["id"] for line in api.get(path(order)).json()["items"]]

    answer = patch(api, order, notes="c", items=[order_line(quantity=1, product_name="Sac", unit_price=10)])

    assert (answer.status_code, answer.json()["error"]) == (422, "order_not_editable")
    assert answer.json()["errors"] == {"edits": [answer.json()["message"]]}
    assert patch(api, order, notes="b").status_code == 200, "nothing different is no change"
    assert patch(api, order, notes="c").json()["edits"][-1]["new"] == "c"
    assert [line["id"] for line in api.get(path(order)).json()["items"]] == lines


def test_anothers_order_is_none(charlies_api, order):
    assert patch(charlies_api, order, customer_name="").status_code == 404
    assert charlies_api.patch(f"/api/v1/orders/{uuid4()}", {"customer_name": "B"}).status_code == 404
    order.refresh_from_db()
    assert order.version == 1


def test_scope(alice, api_for, order):
    assert patch(api_for(alice, scopes=["orders:read"]), order, notes="x").status_code == 403


def test_an_agents_open_screen_is_told_and_their_decision_refused(api, order):
    agent = AgentFactory()
    claim = claims.take(order.id, agent=agent)
    assert customer.glance(claim, agent=agent).versions == {order.id: 1}

    patch(api, order, customer_address="Elsewhere")

    assert customer.glance(claim, agent=agent).versions == {order.id: 2}
    screen = decisions.Screen(claim, agent, {order.id: 1})
    with pytest.raises(lifecycle.Changed):
        decisions.confirm(screen, order.id)
    with pytest.raises(lifecycle.Changed):
        decisions.edit(screen, order.id, editing.Edit(customer_name="B"))


# --- If-Match -------------------------------------------------------------------------------------------------------


def send(api, order, tag, **changes):
    return api.patch(path(order), changes, headers={"If-Match": tag})


def test_if_match_refuses_what_changed_in_between(api, order):
    tag = api.get(path(order)).headers["ETag"]
    answer = send(api, order, tag, notes="1")
    assert answer.status_code == 200

    for stale in (tag, tag.removeprefix("W/"), '"x"', "x", "", '"'):
        refused = send(api, order, stale, notes="2")
        assert (refused.status_code, refused.json()["error"]) == (412, "precondition_failed")
        assert ("Read it again" in refused.json()["message"]) == (stale.count('"') == 2)
    for good in (answer.headers["ETag"], f'"x", {answer.headers["ETag"]}', "*"):
        assert send(api, order, good, notes="1").status_code == 200

    lifecycle.add_call_note(order.id, lifecycle.Call(agent=AgentFactory(), outcome="busy"))
    assert send(api, order, answer.headers["ETag"], notes="2").status_code == 412
    assert send(api, order, "*", notes="").status_code == 200
    lifecycle.confirm(order.id, actor=SAMIRA)
    assert send(api, order, tag, notes="2").json()["error"] == "precondition_failed"
    assert send(api, order, "*", notes="2").json()["error"] == "order_not_editable"


def test_if_match_without_its_quotes_is_told_to_send_them(api, order):
    tag = api.get(path(order)).headers["ETag"]

    refused = send(api, order, tag.replace('"', ""), notes="1")

    assert (refused.status_code, refused.json()["error"]) == (412, "precondition_failed")
    assert refused.json()["message"] == "`If-Match` names no ETag. Send the ETag as it came, with its quotes."


def test_if_match_of_no_order_is_404(api, order):
    assert api.patch(f"/api/v1/orders/{uuid4()}", {}, headers={"If-Match": "*"}).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_with_one_tag_one_is_taken(alice):
    order, key = make_order(alice), new_key(alice)
    tag = ApiClient(key).get(path(order)).headers["ETag"]
    answers = at_once(6, lambda number: send(ApiClient(key), order, tag, notes=str(number)).status_code)
    assert sorted(answers) == [200, 412, 412, 412, 412, 412]
    assert Order.objects.get().version == 2


@pytest.mark.django_db(transaction=True)
def test_changes_at_once_form_an_unbroken_chain(alice):
    order, key = make_order(alice), new_key(alice)
    lines = [[order_line(product_name=f"P{n}", quantity=1, unit_price=n)] * (n + 1) for n in range(6)]
    answers = at_once(6, lambda n: patch(ApiClient(key), order, notes=f"n{n}", items=lines[n]).status_code)
    assert answers == [200] * 6
    order.refresh_from_db()
    assert order.version == 7
    chain = list(OrderEdit.objects.filter(field="notes").order_by("at").values_list("old", "new"))
    assert [old for old, _ in chain] == ["", *(new for _, new in chain[:-1])]
    count = int(order.notes[1:]) + 1
    assert list(order.items.order_by("position").values_list("position", flat=True)) == list(range(count))
    assert OrderItem.objects.count() == count


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("count", [1, 100])
def test_a_change_costs_as_many_statements_for_100_lines(alice, api, order, count):
    tag = api.get(path(order)).headers["ETag"]
    product = ProductFactory(account=alice)
    body = {"customer_name": "B", "items": [order_line(product_id=product.id, quantity=3)] * count}
    with CaptureQueriesContext(connection) as statements:
        answer = api.patch(path(order), json.dumps(body), headers={"If-Match": tag})
    assert len(answer.json()["items"]) == count
    assert len(statements) <= 12, [each["sql"] for each in statements]

"""Customers of orders that ended long ago are overwritten everywhere. Figures and open orders stay as they are."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from agents.supervision import performance
from orders import anonymising, counts, lifecycle, retention
from orders.models import CallNote, Order, OrderEdit, Status, StatusChange
from orders.order_events import CallEvent
from tests import factories
from tests.agents.screens import order_page, told
from tests.harness.background import at_once
from tests.harness.database import stopped_before_its_locks
from tests.harness.manage import output
from tests.harness.plans import explain, fill

LONG = timedelta(days=731)
PERSONAL = (
    "Nadia Cherif",
    "0661223344",
    "+213661223344",
    "0661 22 33 55",
    "+213661223355",
    "7 rue Larbi",
    "WILAYA ALGER",
    "bab ezouar",
    "sonnette",
)


def prune(*options):
    """Return how many customers the command anonymises."""
    return json.loads(output("prune", "--json", *options))["customers"]


@pytest.fixture
def agent(db):
    return factories.AgentFactory()


@pytest.fixture
def ring(alice):
    return factories.ProductFactory(account=alice, name="Bague")


@pytest.fixture
def order_in(alice, agent, ring):
    """Make an order of Nadia's in a status, all of it `age` ago, with a call, an edit and reasons that name her."""

    def make(status=Status.DELIVERED, age=LONG, **changes):
        order = factories.make_order(
            alice,
            customer_name="Nadia Cherif",
            phone="0661223344",
            customer_phone_2="0661 22 33 55",
            customer_address="7 rue Larbi",
            customer_wilaya="WILAYA ALGER",
            customer_commune="bab ezouar",
            notes="sonnette Nadia Cherif",
            external_id=f"Nadia Cherif {uuid4()}",
            items=[
                factories.order_line(
                    product_name="Bague de Nadia Cherif", quantity=1, unit_price=900, attributes={"nom": "Nadia Cherif"}
                ),
                factories.order_line(product_name="Bague, Nadia Cherif", product_id=ring.id, quantity=2),
            ],
            **changes,
        )
        lifecycle.add_call_note(
            order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.ANSWERED, note="Nadia Cherif dit oui")
        )
        then = timezone.now() - age
        Order.objects.filter(id=order.id).update(
            status=status, created_at=then, updated_at=then, cancel_reason="Nadia Cherif a changé d'avis"
        )
        CallNote.objects.filter(order=order).update(created_at=then)
        StatusChange.objects.filter(order=order).update(reason="7 rue Larbi est fermée", at=then)
        edit = {"order": order, "account": alice, "at": then, "actor": "Agent"}
        OrderEdit.objects.create(**edit, field="customer_address", old="7 rue Larbi", new="8 rue Larbi, Nadia Cherif")
        OrderEdit.objects.create(**edit, field="items.0.quantity", old="1", new="2")
        OrderEdit.objects.create(**edit, field="items.1", old="", new="1 × Bague, Nadia Cherif, 900.00")
        return order

    return make


def everything():
    """Return everything in the tables of orders, as text."""
    tables = ("order", "orderitem", "statuschange", "callnote", "orderedit")
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT t::text FROM orders_{table} t")
            yield from (text for (text,) in cursor.fetchall())


def test_nothing_personal_is_left_and_the_figures_are(api, order_in):
    order = order_in()
    before = api.get(f"/api/v1/orders/{order.id}").json()
    assert all(any(text in row for row in everything()) for text in PERSONAL)

    assert prune("--dry-run") == 1
    assert prune() == 1

    assert not [(text, row) for row in everything() for text in PERSONAL if text in row]
    after = api.get(f"/api/v1/orders/{order.id}").json()
    assert after["customer"] == before["customer"] | {"name": "—", "phone": "", "phone_2": None, "address": ""}
    assert after["anonymised_at"] is not None
    assert after["external_id"] is None
    assert [(item["product_name"], item["attributes"]) for item in after["items"]] == [("—", {}), ("Bague", {})]
    kept = ("id", "status", "total_amount", "shipping_fee", "created_at", "updated_at")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    kept = ("id", "product_id", "sku", "quantity", "unit_price")
    for item, was in zip(after["items"], before["items"], strict=True):
        assert {name: item[name] for name in kept} == {name: was[name] for name in kept}
    (note,) = after["call_notes"]
    assert (note["outcome"], note["note"]) == ("answered", "")
    assert [(edit.field, edit.new) for edit in OrderEdit.objects.order_by("field")] == [
        ("customer_address", ""), ("items.0.quantity", "2"), ("items.1", "")
    ]  # fmt: skip
    assert prune() == 0


@pytest.mark.parametrize(
    ("reason", "kept"),
    [("Wrong number: de Nadia Cherif", "Wrong number"), ("Duplicate", "Duplicate"), ("Nadia Cherif: Duplicate", ""),
     ("Other", ""), ("Duplicate de Nadia Cherif", "")],
)  # fmt: skip
def test_of_reasons_what_has_a_button_stays_for_the_figures(api, order_in, agent, reason, kept):
    order, day = order_in(Status.CANCELED), (timezone.now() - LONG).date()
    Order.objects.filter(id=order.id).update(cancel_reason=reason)
    StatusChange.objects.create(
        order=order, account=order.account, from_status="pending_confirmation", to_status="canceled", reason=reason,
        at=timezone.now() - LONG, actor="Agent", user=agent,
    )  # fmt: skip

    assert prune() == 1

    (row,) = performance.read(day - timedelta(days=1), day + timedelta(days=1), "day").reasons
    assert (row.key, row.canceled) == (kept, 1)
    after = api.get(f"/api/v1/orders/{order.id}").json()
    assert (after["cancel_reason"], after["status_history"][-1]["reason"]) == (kept, kept)
    assert not [row for row in everything() if "Nadia" in row]


@pytest.mark.parametrize("status", Status.values)
def test_only_orders_that_have_ended_are_anonymised(order_in, status):
    order_in(status)

    assert prune() == (1 if status in ("canceled", "delivered", "returned") else 0)


def test_orders_that_changed_or_were_called_about_since_keep_their_customer(order_in):
    order_in(age=timedelta(days=729))
    called = order_in()
    CallNote.objects.filter(order=called).update(created_at=timezone.now() - timedelta(days=1))

    assert (prune("--dry-run"), prune()) == (0, 0)


def test_it_can_be_switched_off(order_in, settings):
    settings.CUSTOMER_RETENTION_DAYS = 0
    order_in(age=timedelta(days=3000))

    assert (prune("--dry-run"), prune()) == (0, 0)


def test_lists_and_their_totals_stay(api, alice, order_in):
    for status in (Status.CANCELED, Status.RETURNED, Status.DELIVERED):
        order_in(status)
    prune()

    listed = api.get("/api/v1/orders").json()

    assert listed["meta"]["total"] == 3
    assert {(row["customer"]["name"], row["customer"]["wilaya"]) for row in listed["data"]} == {("—", "16")}
    assert counts.problem() == ""
    assert api.get("/api/v1/orders", {"phone": "0661223344"}).json()["data"] == []


def test_a_page_that_was_seen_before_is_another_one(api, order_in):
    order = order_in()
    tag = api.get(f"/api/v1/orders/{order.id}").headers["ETag"]
    prune()

    assert api.get(f"/api/v1/orders/{order.id}", headers={"If-None-Match": tag}).status_code == 200


def test_pages_show_it_without_a_phone(client, alice, order_in):
    order = order_in()
    prune()
    agent = factories.AgentFactory(role="Supervisors")

    for person, page in ((agent, f"/console/orders/order/{order.id}/"), (alice.holder, f"/account/orders/{order.id}")):
        client.force_login(person)
        answer = client.get(page)
        assert answer.status_code == 200
        text = answer.content.decode()
        assert "its customer has been anonymised" in text
        assert "tel:" not in text
        assert not [each for each in PERSONAL if each in text]


def test_nothing_is_noted_any_more(client, order_in, agent):
    order = order_in()
    client.force_login(agent)
    form = client.get(order_page(order)).context["note_form"]
    noted = {"version": order.version, "note_id": form["note_id"].value(), "outcome": "note", "note": "0661 22 33 44"}
    prune()

    answer = client.post(order_page(order, "note"), noted)

    assert "No call can be noted on it any more." in told(answer)
    assert order_page(order, "note") not in client.get(order_page(order)).content.decode()
    assert not [row for row in everything() if "0661 22 33 44" in row]


def test_a_call_that_was_noted_before_is_not_refused(order_in, agent):
    order, call = order_in(), lifecycle.Call(agent, CallNote.Outcome.NOTE, "rappelle", note_id=uuid4())
    lifecycle.add_call_note(order.id, call)
    CallNote.objects.update(created_at=timezone.now() - LONG)
    assert prune() == 1

    lifecycle.add_call_note(order.id, call)
    assert CallNote.objects.filter(id=call.note_id).count() == 1


def test_to_cancel_again_is_still_harmless(api, order_in):
    order = order_in(Status.CANCELED)
    prune()

    assert api.post(f"/api/v1/orders/{order.id}/cancel").json()["customer"]["name"] == "—"


@pytest.mark.django_db(transaction=True)
def test_in_batches_by_two_at_once_each_order_once(order_in, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 3)
    for _ in range(10):
        order_in()
    assert prune("--dry-run") == 10

    assert sum(at_once(2, lambda _: prune())) == 10
    assert set(Order.objects.values_list("version", "customer_name")) == {(2, "—")}


@pytest.mark.django_db(transaction=True)
def test_a_call_that_is_noted_just_before_the_lock_keeps_the_customer(order_in, agent):
    order, other = order_in(), order_in()
    call = lifecycle.Call(agent=agent, outcome=CallNote.Outcome.ANSWERED, note="Nadia Cherif rappelle")

    with stopped_before_its_locks("orders_order", prune) as anonymised:
        lifecycle.add_call_note(order.id, call)

    assert anonymised.result() == 1
    assert Order.objects.get(anonymised_at=None).id == order.id
    assert {row for row in everything() for text in PERSONAL if text in row and str(other.id) in row} == set()


def test_the_search_for_them_reads_an_index(order_in, alice):
    order_in()
    fill(alice)
    # Among few notes, reading all of them by the index of their times costs less.
    noted = {"account": alice, "outcome": "note", "agent_name": "Lina", "created_at": timezone.now()}
    CallNote.objects.bulk_create(CallNote(order=order, **noted) for order in Order.objects.all() for _ in range(9))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_callnote")

    plan = explain(retention._LOCK_OLD, {"kept": LONG, "batch": 10}, without=["seqscan"])

    assert "order_to_anonymise" in plan
    assert "call_note_of_order" in plan


def test_a_new_field_of_orders_is_thought_of():
    """A new field may name somebody."""
    known = {
        "id", "account", "external_id", "status", "version", "customer_name", "customer_phone", "phone_e164",
        "customer_address", "customer_wilaya", "wilaya_code", "customer_commune", "commune_code", "total_amount",
        "shipping_fee", "notes", "cancel_reason", "call_state", "call_due_at", "call_attempts", "callback_agent",
        "created_at", "updated_at", "confirmed_at", "canceled_at", "anonymised_at",
        "customer_phone_2", "phone_2_e164", "delivery_type", "source",
    }  # fmt: skip

    assert {field.name for field in Order._meta.concrete_fields} == known, "does orders.retention overwrite it?"


def test_a_new_field_of_what_events_tell_is_thought_of():
    """It may name a customer too, and what was told is overwritten as well."""
    known = {"id", "status", "total_amount", "updated_at", "outcome", "attempt_count", "next_call_at"}

    assert {*CallEvent.__struct_fields__} == {*anonymising.TOLD} | known, "does anonymising.TOLD overwrite it?"

"""The OpenAPI description has the calls about webhooks, and the deliveries themselves under `webhooks`."""

import json
from decimal import Decimal

import jsonschema_rs
import pytest
from django.db import transaction
from django.utils import timezone

from codservice.accounts.actor import Actor, Role
from inventory import catalog, stock
from orders import editing, lifecycle
from orders.models import CallNote, CallState
from tests.factories import ProductFactory, make_order
from tests.harness.description import described
from webhooks import events, posts
from webhooks.models import Event
from webhooks.openapi import example_of


@pytest.fixture
def description(client, db):
    return described(client)


def test_every_event_that_is_written_fits_its_description(description, alice, register):
    webhook = register(alice)
    actor = Actor(Role.MERCHANT, "API key test")
    supervisor = Actor(Role.SUPERVISOR, "Karim")
    for end in ("deliver", "return"):
        order = make_order(alice, external_id=end)
        editing.edit(order.id, editing.Edit(customer_name="Amine"), actor=supervisor)
        call = lifecycle.Call(alice.holder, CallNote.Outcome.BUSY)
        plan = lifecycle.CallPlan(CallState.RETRY, timezone.now(), attempts=1)
        lifecycle.add_call_notes([lifecycle.lock_one(order.id)], call, {order.id: plan})
        for move in ("confirm", "ship", end):
            lifecycle.move(move, order.id, actor=supervisor)
    lifecycle.cancel(make_order(alice).id, actor=actor)
    catalog.save(alice.id, [catalog.Draft("NEW", "New", Decimal(10))], actor=actor, sets_stock=True)
    product = ProductFactory(account=alice)
    stock.set_quantities(alice.id, [stock.Update(quantity=7, sku=product.sku)], actor=actor)
    with transaction.atomic():
        events.ping(alice.id, webhook.id)
        for kind in Event.Kind.values:
            events.ping(alice.id, webhook.id, kind=kind, example=example_of(kind))

    assert set(description["webhooks"]) == {*Event.Kind.values, "ping"}
    written = Event.objects.all()
    assert {event.kind for event in written} == set(description["webhooks"])
    for event in written:
        post = description["webhooks"][event.kind]["post"]
        schema = post["requestBody"]["content"]["application/json"]["schema"]
        jsonschema_rs.validate(schema, json.loads(event.body))
        assert set(json.loads(event.body)["data"]) == set(schema["properties"]["data"]["properties"])


def test_every_header_that_is_sent_is_described(description, delivery_of, alice, register):
    delivery = delivery_of(register(alice))
    post = posts.Post(
        delivery.id,
        "https://shop.example/",
        "ping",
        b"{}",
        ["whsec_YQ==", "whsec_Yg=="],
        1,
        event_id=delivery.event_id,
        is_test=True,
    )
    sent = {line.partition(":")[0] for line in posts.headers(post, 0)} - {
        "Content-Type",
        "User-Agent",
        "Accept",
        "Expect",
    }

    for webhook in description["webhooks"].values():
        assert {parameter["name"] for parameter in webhook["post"]["parameters"]} == sent


def test_the_calls_are_described(description):
    said = {
        (path.removeprefix("/api/v1/"), method)
        for path, methods in description["paths"].items()
        for method in methods
        if "webhooks" in path or "deliveries" in path
    }
    assert said == {
        ("webhooks", "get"), ("webhooks", "post"), ("webhooks/{id}", "get"), ("webhooks/{id}", "delete"),
        ("webhooks/{id}", "patch"), ("webhooks/{id}/recover", "post"),
        ("webhooks/{id}/ping", "post"), ("webhooks/{id}/rotate-secret", "post"), ("webhooks/{id}/deliveries", "get"),
        ("deliveries/{id}", "get"), ("deliveries/{id}/resend", "post"),
    }  # fmt: skip

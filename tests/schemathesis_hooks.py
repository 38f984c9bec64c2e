"""Tells `schemathesis run` what no schema can: which orders, products and communes exist.

    SCHEMATHESIS_HOOKS=tests.schemathesis_hooks schemathesis --config-file tests/schemathesis.toml \
        run http://127.0.0.1:8000/api/schema --checks all -H "Authorization: Bearer $KEY"

Data that follows the description is completed so that it also fits the database. Data that breaks it on purpose is left
alone, and so is every check. CODSERVICE_ORDERS are ids of existing orders, CODSERVICE_PRODUCTS pairs `id=sku` of
existing products, and CODSERVICE_PENDING ids of orders that nothing else decides; all are comma-separated.
"""

import gc
import os
from collections import deque
from datetime import UTC, datetime, timedelta
from itertools import count, cycle
from typing import Any
from uuid import uuid4

import requests
import schemathesis

# Loaded objects stay, and few others end up in cycles: collecting garbage took a tenth of the time.
gc.freeze()
gc.set_threshold(20_000)

ORDERS = cycle([*os.environ.get("CODSERVICE_ORDERS", "").split(","), str(uuid4())])
PENDING = cycle([*filter(None, os.environ.get("CODSERVICE_PENDING", "").split(",")), str(uuid4())])
PRODUCTS = cycle([pair.split("=") for pair in os.environ.get("CODSERVICE_PRODUCTS", "=").split(",")])
NUMBERS = count()
WEBHOOKS: deque[str] = deque()
MOST_WEBHOOKS = 10  # an account may have 20


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Leave a format out that a pattern implies: schemathesis would long search for text that breaks it alone.

    Words that others may join are no others here, so that answers with unknown ones are found.
    """
    for schema in raw_schema["components"]["schemas"].values():
        for field in schema.get("properties", {}).values():
            if field.get("format") == "uri" and "pattern" in field:
                del field["format"]
            for words in (field, field.get("items", {})):
                if "examples" in words:
                    words["enum"] = words["examples"]


@schemathesis.hook
def before_call(context: Any, case: Any, **kwargs: Any) -> None:
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    round_amounts(case.body)
    if "id" in case.path_parameters and case.meta.phase.name.value != "stateful":
        if "/orders/" in case.operation.path:
            case.path_parameters["id"] = next(ORDERS)
        elif "/products/" in case.operation.path:
            case.path_parameters["id"] = next(PRODUCTS)[0]
        elif "/webhooks/" in case.operation.path and WEBHOOKS:
            case.path_parameters["id"] = WEBHOOKS[-1]
    if "cursor" in (case.query or {}):  # only a list can issue one
        case.query["cursor"] = ""
        case.query.pop("page", None)
    if case.operation.label == "PATCH /api/v1/orders/{id}":
        case.path_parameters["id"] = next(PENDING)
        (case.headers or {}).pop("If-Match", None)
        if isinstance(case.body, dict):
            complete_changes(case.body)
    if case.operation.label == "PUT /api/v1/shipping-fees" and isinstance(case.body, dict):
        for number, entry in enumerate(case.body["fees"], start=1):
            entry["wilaya"] = number
    if case.operation.label == "POST /api/v1/orders/batch" and isinstance(case.body, dict):
        for body in case.body["orders"]:
            complete_order(body)
        make_key_new(case)
    if case.operation.path.startswith("/api/v1/regions/") and case.query:
        case.query |= {
            name: {"wilaya": "16", "commune": "Hydra"}[name] for name in case.query.keys() & {"wilaya", "commune"}
        }
    if case.operation.label == "PUT /api/v1/products" and isinstance(case.body, dict):
        for entry in case.body["products"]:
            if "stock_quantity" in entry:
                entry["stock_quantity"] = as_integer(entry["stock_quantity"])
    if case.operation.label == "POST /api/v1/webhooks" and isinstance(case.body, dict):
        case.body["url"] = f"https://receiver.invalid/{next(NUMBERS)}"
    if case.operation.label == "PATCH /api/v1/webhooks/{id}" and isinstance(case.body, dict):
        case.body["is_active"] = True  # pings need an active one
        if "url" in case.body:
            case.body["url"] = f"https://receiver.invalid/{next(NUMBERS)}"
    if case.operation.label == "POST /api/v1/webhooks/{id}/recover" and isinstance(case.body, dict):
        case.body = {"since": (datetime.now(UTC) - timedelta(days=1)).isoformat()}
    if case.operation.label == "GET /api/v1/events" and case.query:
        case.query["after"] = ""  # only we can sign another
    if case.operation.label == "PUT /api/v1/inventory" and isinstance(case.body, dict):
        for entry in case.body["updates"]:
            complete_entry(entry)
    if case.operation.label == "POST /api/v1/orders" and isinstance(case.body, dict):
        complete_order(case.body)
        make_key_new(case)


AMOUNTS = {"total_amount", "shipping_fee", "unit_price", "price", "home", "desk"}


def round_amounts(body: Any) -> None:
    """Round amounts to two decimal places, a rule that the description only states in words."""
    for key, value in body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ():
        if key in AMOUNTS and isinstance(value, float):
            body[key] = round(value, 2)
        round_amounts(value)


def make_key_new(case: Any) -> None:
    if key := (case.headers or {}).get("Idempotency-Key"):
        case.headers["Idempotency-Key"] = new_from(key)


def as_integer(value: Any) -> Any:
    """The value as an int if it is a float: 2.0 is an integer in JSON Schema, but not in the API."""
    return int(value) if isinstance(value, float) else value


def new_from(text: str) -> str:
    return f"{text[:32]}{os.getpid()}-{next(NUMBERS)}"


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Delete the oldest webhook to make room for the newest."""
    if case.operation.label == "POST /api/v1/webhooks" and response.status_code == 201:
        WEBHOOKS.append(response.json()["data"]["id"])
        if len(WEBHOOKS) > MOST_WEBHOOKS:
            headers = {"Authorization": response.request.headers["Authorization"]}
            requests.delete(f"{response.request.url}/{WEBHOOKS.popleft()}", headers=headers, timeout=10)


def complete_order(body: dict[str, Any]) -> None:
    """Use a commune of the wilaya, products that exist and a new `external_id`."""
    if body.get("customer_commune"):
        body["customer_wilaya"], body["customer_commune"] = "16", "1601"
    if body.get("external_id"):
        body["external_id"] = new_from(body["external_id"])
    for name in ("customer_wilaya", "customer_commune"):
        body[name] = as_integer(body.get(name))
    complete_items(body)


def complete_changes(body: dict[str, Any]) -> None:
    """Use a commune of the wilaya and products that exist."""
    if body.keys() & {"customer_wilaya", "customer_commune"}:
        body["customer_wilaya"], body["customer_commune"] = "16", "1601"
    complete_items(body)


def complete_items(body: dict[str, Any]) -> None:
    for item in body.get("items", []):
        item["quantity"] = as_integer(item["quantity"])
        if item.get("product_id"):
            item["product_id"] = next(PRODUCTS)[0]


def complete_entry(entry: dict[str, Any]) -> None:
    """Use a product that exists, whatever its current stock."""
    id_, sku = next(PRODUCTS)
    if entry.get("id"):
        entry["id"] = id_
    if entry.get("sku"):
        entry["sku"] = sku
    entry["quantity"] = as_integer(entry["quantity"])
    if "expected_quantity" in entry:
        entry["expected_quantity"] = None

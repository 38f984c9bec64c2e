"""Charlie finds, learns and changes nothing of Alice's: at every address, by every id there is.

Addresses come from the URL configuration and ids from the tables, so a new endpoint or table is tried without being
named here. What endpoints take in their bodies is in BODIES, where a new one has to be added.
"""

import json
import re
import zipfile
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from django.db.models import Model
from django.http import HttpResponse
from django.test import Client

from codservice.accounts.models import Account
from inventory.models import Product
from orders.models import Order, Status
from tests.factories import order_body, order_line
from tests.harness.addresses import Address, addresses
from tests.harness.client import ApiClient, new_key
from tests.harness.database import contents
from tests.harness.world import World, rows_of

NOBODYS = "01980000-0000-7000-8000-000000000000"
# What somebody's own request leaves behind.
OWN_TRACES = ("django_session", "accounts_signin", "accounts_apikey.last_used_at", "api_idempotencyrecord")
VARYING = ("X-Request-Id", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Content-Length", "Expires")
API = [address for address in addresses() if address.is_api]
ACCOUNT = [address for address in addresses() if address.route.startswith("/account")]
# Each call that writes → a body with an id and a SKU wherever it may name something of an account; None where only the
# path says what it works on.
BODIES: dict[tuple[str, str], Callable[[str, str], dict[str, Any]] | None] = {
    ("orders", "POST"): lambda id_, _sku: order_body(items=[order_line(product_id=id_, quantity=1)]),
    ("order-batch", "POST"): lambda id_, _sku: {
        "orders": [order_body(items=[order_line(product_id=id_, quantity=1)])] * 2
    },
    ("order", "PATCH"): lambda id_, _sku: {"items": [order_line(product_id=id_, quantity=1)]},
    ("order-cancel", "POST"): None,
    ("shipping-fees", "PUT"): None,
    ("inventory", "PUT"): lambda id_, sku: {"updates": [{"id": id_, "quantity": 1}, {"sku": sku, "quantity": 1}]},
    ("products", "PUT"): None,  # a SKU that only another account has is a new one (tests/inventory/test_products.py)
    ("webhooks", "POST"): None,
    ("webhook", "DELETE"): None,
    ("webhook", "PATCH"): None,
    ("webhook-recover", "POST"): None,
    ("webhook-ping", "POST"): None,
    ("webhook-rotate-secret", "POST"): None,
    ("delivery-resend", "POST"): None,
    **{(f"test-order-{name}", "POST"): None for name in ("confirm", "cancel", "call", "ship", "deliver", "return")},
}


@pytest.fixture
def key(world: World) -> ApiClient:
    """Charlie's key."""
    return ApiClient(new_key(world.charlie))


@pytest.fixture
def browser(world: World) -> Client:
    return world.client("holder")


def ids_of(account: Account) -> dict[type[Model], list[str]]:
    """Return the ids of all rows by table, but for ids that are numbers."""
    ids = {model: [str(row.pk) for row in rows] for model, rows in rows_of(account).items()}
    return {model: [each for each in keys if not each.isdecimal()] for model, keys in ids.items()}


def all_of(ids: dict[type[Model], list[str]]) -> set[str]:
    return {each for keys in ids.values() for each in keys}


def text_of(data: bytes) -> str:
    """Return the text of a page or a file; of a spreadsheet, that of all its parts."""
    if not data.startswith(b"PK"):
        return data.decode()
    with zipfile.ZipFile(BytesIO(data)) as file:
        return "".join(file.read(name).decode() for name in file.namelist())


def said(answer: HttpResponse, *given: str) -> tuple[Any, ...]:
    """Return all that an answer tells, with `given` masked, and without what differs between any two answers."""
    text = re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", answer.content.decode())
    headers = "\n".join(f"{n}: {v}" for n, v in answer.headers.items() if n not in VARYING)
    for each in given:
        text, headers = text.replace(each, "GIVEN"), headers.replace(each, "GIVEN")
    return answer.status_code, text, headers


@pytest.mark.parametrize(
    ("where", "methods"),
    [(API, ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")), (ACCOUNT, ("GET", "POST"))],
    ids=["api", "pages"],
)
def test_anothers_ids_are_like_those_of_nobody(
    where: list[Address], methods: tuple[str, ...], world: World, key: ApiClient, browser: Client
) -> None:
    """Tries every id of the tables that an address names, and one id of each other table."""
    client, ids = (key if where is API else browser), ids_of(world.alice)
    one_each = {keys[0] for keys in ids.values() if keys}
    tried = [address for address in where if address.parameters and "uidb64" not in address.parameters]
    assert len(tried) > 6
    assert len(all_of(ids)) > 40
    before, told = contents(*OWN_TRACES), []
    for address in tried:
        for method in methods:
            is_answered = where is ACCOUNT or method in address.methods
            tries = one_each.union(*(ids.get(model, ()) for model in address.named if is_answered))
            nobodys, *theirs = (address.with_values(each) for each in (NOBODYS, *tries))
            unknown = said(client.generic(method, nobodys), nobodys)
            assert unknown[0] in (404, 405)
            told += [(method, path) for path in theirs if said(client.generic(method, path), path) != unknown]
    assert told == []
    assert contents(*OWN_TRACES) == before


def test_no_answer_names_anything_of_anothers(world: World, key: ApiClient, browser: Client) -> None:
    """Covers one's own lists and pages, and searches for what Alice has."""
    theirs = all_of(ids_of(world.alice))
    order, product = Order.objects.filter(account=world.alice)[0], Product.objects.get(account=world.alice)
    number = order.external_id
    searches = [{}, {"q": number}, {"external_id": number}, {"phone": order.phone_e164}, {"sku": product.sku}]
    ours, named = all_of(ids_of(world.charlie)), []
    for client, where in ((key, API), (browser, ACCOUNT)):
        own = set()
        for address in where:
            for path in address.paths():
                if not theirs & set(path.split("/")):
                    for search in [{}] if address.parameters else searches:
                        answer = client.get(path, search)
                        text = text_of(b"".join(answer) if answer.streaming else answer.content)
                        named += [(path, search, each) for each in theirs if each in text]
                        own |= {each for each in ours if each in text}
        assert len(own) > 20, "what is one's own is named"
    assert named == []
    orders = Order.objects.filter(account=world.charlie).count()
    assert key.get("/api/v1/orders").json()["meta"]["total"] == orders
    assert key.get("/api/v1/orders", {"external_id": order.external_id}).json()["meta"]["total"] == 0


def test_every_call_that_writes_says_what_its_body_may_name() -> None:
    writing = {(address.name, method) for address in API for method in address.methods - {"GET", "HEAD"}}
    assert writing == set(BODIES)


@pytest.mark.parametrize(("name", "method"), [call for call, body in BODIES.items() if body])
def test_anothers_things_in_a_body_are_as_unknown_as_none(name: str, method: str, world: World, key: ApiClient) -> None:
    address, body = next(address for address in API if address.name == name), BODIES[name, method]
    assert body is not None
    path = address.route
    if address.parameters:  # one of Charlie's own that may still be changed
        path = address.with_values(str(Order.objects.filter(account=world.charlie, status=Status.PENDING)[0].id))
    product = Product.objects.get(account=world.alice)
    before = contents(*OWN_TRACES)

    def send(id_: str, sku: str) -> Any:
        return key.generic(method, path, json.dumps(body(id_, sku)), content_type="application/json")

    unknown = said(send(NOBODYS, "NOBODYS"), NOBODYS, "NOBODYS")
    assert unknown[0] == 422
    for id_ in all_of(ids_of(world.alice)):
        assert said(send(id_, product.sku), id_, product.sku) == unknown
    assert contents(*OWN_TRACES) == before


def test_an_idempotency_key_of_anothers_is_free(world: World, key: ApiClient) -> None:
    alices = ApiClient(new_key(world.alice))
    first = alices.post("/api/v1/orders", order_body(), headers={"Idempotency-Key": "same"})
    second = key.post("/api/v1/orders", order_body(), headers={"Idempotency-Key": "same"})
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] != second.json()["id"]
    assert "Idempotent-Replayed" not in second.headers

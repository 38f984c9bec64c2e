"""The OpenAPI description is valid and says what the service really does; schemathesis finds nothing against it."""

import json
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import jsonschema_rs
import pytest
from django.conf import settings
from django.test import override_settings
from django.urls import get_resolver
from drf_spectacular import validation
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.configuration import storage_directory
from jsonschema import Draft202012Validator

from codservice import values
from codservice.accounts.actor import Actor, Role
from codservice.api.schema import description as describe
from inventory.stock import Reason
from orders import lifecycle
from tests.factories import AccountFactory, ProductFactory, UserFactory, make_order, order_body
from tests.harness.client import new_key
from tests.harness.description import Checker, described, parsed
from webhooks import receivers
from webhooks.models import Event

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db


@pytest.fixture
def description(client):
    return described(client)


def operations(description):
    return {
        (method.upper(), path): operation
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
        if method != "parameters"
    }


def test_the_description_is_valid_openapi(description):
    assert description["openapi"].startswith("3.1.")
    meta_schema = Path(validation.__file__).with_name("openapi_3_1_schema.json").read_text()
    jsonschema_rs.validator_for(json.loads(meta_schema)).validate(description)


def test_the_description_is_made_once_and_costs_little_to_ask_again(client, monkeypatch, django_assert_num_queries):
    first = client.get("/api/schema")
    monkeypatch.setattr("drf_spectacular.generators.SchemaGenerator.get_schema", None)
    with django_assert_num_queries(0):
        again = client.get("/api/schema", headers={"Accept-Language": "fr"})
    assert (again.content, again.headers["ETag"]) == (first.content, first.headers["ETag"])
    assert again.headers["Content-Type"] == "application/vnd.oai.openapi"
    known = client.get("/api/schema", headers={"If-None-Match": first.headers["ETag"]})
    assert (known.status_code, known.content) == (304, b"")


@pytest.mark.parametrize(
    ("query", "accept", "media_type"),
    [
        ("", "application/json", "application/json"),
        ("", "application/json, text/plain, */*", "application/json"),
        ("", "application/vnd.oai.openapi+json", "application/vnd.oai.openapi+json"),
        ("?format=json", "*/*", "application/vnd.oai.openapi+json"),
        ("?format=json", "application/json", "application/json"),
    ],
)
def test_the_description_comes_as_json_where_that_is_asked_for(client, description, query, accept, media_type):
    answer = client.get(f"/api/schema{query}", headers={"Accept": accept})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, media_type)
    assert json.loads(answer.content) == description
    assert "Accept" in answer.headers["Vary"]
    known = client.get(f"/api/schema{query}", headers={"Accept": accept, "If-None-Match": answer.headers["ETag"]})
    assert known.status_code == 304


@pytest.mark.parametrize(
    ("query", "accept"),
    [("", None), ("", "*/*"), ("", "text/html"), ("", "///;"), ("", "text/x; a*=x; a*0=y"), ("?format=yaml", "*/*"),
     ("?format=xml", "*/*"), ("?format=", "*/*"), ("?format=json", "text/html")],
)  # fmt: skip
def test_the_description_is_yaml_for_whoever_asks_for_nothing_else(client, query, accept):
    answer = client.get(f"/api/schema{query}", headers={"Accept": accept} if accept else {})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/vnd.oai.openapi")
    assert parsed(answer.content)["openapi"].startswith("3.1.")


def test_no_two_threads_make_the_description_at_once(monkeypatch):
    """drf-spectacular's classes find at first use what they extend, and break if two threads do so at once."""
    making, is_second_in = [], threading.Event()

    def make(*_args, **_kwargs):
        making.append(threading.get_ident())
        if len(making) > 1:
            is_second_in.set()
        is_second_in.wait(0.5)
        making.pop()

    monkeypatch.setattr("drf_spectacular.generators.SchemaGenerator.get_schema", make)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _number: describe(), range(2)))
    assert not is_second_in.is_set()


def test_the_description_names_the_server_that_was_asked(client, settings):
    settings.ALLOWED_HOSTS = ["one.example", "two.example"]
    one, two = (client.get("/api/schema", headers={"Host": f"{name}.example"}) for name in ("one", "two"))
    assert parsed(one.content)["externalDocs"]["url"] == "http://one.example/docs/"
    assert parsed(two.content)["info"]["contact"]["url"] == "http://two.example/docs/"
    assert one.headers["ETag"] != two.headers["ETag"]


def test_every_route_of_the_api_is_described(description):
    described = {re.sub(r"{.*?}", "{}", path) for path in description["paths"]}
    (api,) = [pattern for pattern in get_resolver().url_patterns if str(pattern.pattern) == "api/v1/"][:1]
    routes = {f"/api/v1/{re.sub(r'<.*?>', '{}', str(route.pattern))}" for route in api.url_patterns}
    assert routes <= described


def test_every_operation_tells_of_the_gates_answers(description):
    for (method, path), operation in operations(description).items():
        is_open = path.startswith("/api/v1/regions/")
        assert {"401", "403", "429", "500", "503"} <= operation["responses"].keys(), (method, path)
        assert operation["security"] == ([{"apiKey": []}, {}] if is_open else [{"apiKey": []}])
        assert operation["summary"]
        assert "WWW-Authenticate" in operation["responses"]["401"]["headers"]
        for status in ("429", "503"):
            assert "Retry-After" in operation["responses"][status]["headers"]
        for response in operation["responses"].values():
            assert "X-Request-Id" in response["headers"]


def test_every_operation_names_the_scope_without_which_it_is_refused(description, alice, api_for):
    lives, tests = (api_for(alice, scopes=[], is_test=is_test) for is_test in (False, True))
    for (method, path), operation in operations(description).items():
        api = tests if path.startswith("/api/v1/test/") else lives
        answer = api.generic(method, re.sub(r"{.*?}", str(uuid4()), path))
        lacking = re.findall(r"lacks the scope ([a-z:]+)\.", answer.content.decode())
        assert re.findall(r"Needs the scope `([a-z:]+)`\.$", operation["description"]) == lacking, (method, path)
        is_free = path == "/api/v1/me" or path.startswith("/api/v1/regions/")
        assert len(lacking) == (not is_free), (method, path)


def test_a_422_tells_of_the_refusals_that_are_the_operations_own(description):
    own = {}
    for operation in operations(description).values():
        said = operation["responses"].get("422", {}).get("description", "")
        if codes := set(re.findall(r"`(\w+)`: ", said)) - {"validation_failed"}:
            own[operation["operationId"]] = codes

    steps = ("confirm", "call", "ship", "deliver", "return")
    assert own == {
        "orders_partial_update": {"order_not_editable"},
        "orders_cancel": {"order_not_cancellable"},
        "deliveries_resend": {"too_many_attempts"},
        "test_orders_cancel": {"order_not_cancellable"},
        **{f"test_orders_{step}": {"order_already_decided"} for step in steps},
    }


def test_all_answers_that_are_kept_for_a_key_are_described_as_repeated(description):
    kept = {
        operation["operationId"]: {
            int(status) for status, each in operation["responses"].items() if "Idempotent-Replayed" in each["headers"]
        }
        for operation in operations(description).values()
    }
    assert {name: statuses for name, statuses in kept.items() if statuses} == {
        "orders_create": {201, 422},
        "orders_batch": {201, 207, 422},
        "test_orders_call": {200, 422},
    }


def test_what_creates_something_is_described_with_where_it_is(description):
    placed = {
        (operation["operationId"], status)
        for operation in operations(description).values()
        for status, answer in operation["responses"].items()
        if "Location" in answer["headers"]
    }
    sent = {("webhooks_ping", "202"), ("deliveries_resend", "202")}
    assert placed == {("orders_create", "201"), ("webhooks_create", "201")} | sent


def test_what_any_page_may_read_is_described_as_that(description):
    readable = {
        (operation["operationId"], status)
        for operation in operations(description).values()
        for status, answer in operation["responses"].items()
        if "Access-Control-Allow-Origin" in answer["headers"]
    }
    assert readable == {
        ("regions_wilayas", "200"), ("regions_wilayas", "304"),
        *(("regions_communes", status) for status in ("200", "304", "422")),
        *(("regions_lookup", status) for status in ("200", "304", "422")),
    }  # fmt: skip


PHONES = [
    *("0550123456", "0550 12 34 56", "+213550123456", "+213 550 12 34 56", "00213550123456"),
    *("021 23 45 67", "021234567", "+21321234567", "+213 21 23 45 67"),
]
LINKS = [
    "https://shop.example/robe.jpg",
    "https://Cdn.my-shop.dz/s/files/robe%20bleue.jpg?v=1678900&width=800",
    "https://shop.example:8443/hooks/",
    "https://shop.example/?wc-api=cod",
    "https://shop.example:1443/hooks",
    "https://shop.example:65535/hooks",
    "https://a1b2c3d4e5.execute-api.eu-west-3.amazonaws.com/prod/hooks",
    "https://us-central1-boutique-417409.cloudfunctions.net/hooks",
    "https://9f3c-105-101-27-14.ngrok-free.app/hooks",
    "https://hooks.api.preprod.boutique.dz/cod",
]


@pytest.mark.parametrize(
    ("schema", "name", "usual"),
    [
        ("OrderImportRequest", "customer_phone", PHONES),
        ("ProductDraftRequest", "image_url", ["", *LINKS]),
        ("WebhookRegistrationRequest", "url", LINKS),
    ],
)
def test_what_people_usually_send_is_not_described_away(description, schema, name, usual):
    pattern = description["components"]["schemas"][schema]["properties"][name]["pattern"]
    assert [text for text in usual if not re.search(pattern, text)] == []


@given(st.decimals(0, values.MAX_AMOUNT, places=2))
def test_whoever_validates_with_floats_may_send_every_amount(amount):
    """ajv and Python's jsonschema do, and find that 19.99 is not a multiple of 0.01."""
    for schema in values.SENT_AMOUNT_SCHEMA["anyOf"]:
        sent = str(amount) if schema["type"] == "string" else float(amount)
        assert Draft202012Validator(schema).is_valid(sent)


@given(st.from_regex(values.LINK_PATTERN, fullmatch=True))
def test_links_that_are_described_are_taken(link):
    assert values.link(link, max_length=receivers.MAX_LENGTH)
    with override_settings(WEBHOOK_ALLOW_PRIVATE=True):  # names are not looked up
        assert receivers.normalise(link)


def test_null_is_described_where_it_is_taken_and_nowhere_else(description):
    order = description["components"]["schemas"]["OrderImportRequest"]["properties"]

    assert {"type": "null"} not in order["total_amount"]["anyOf"]
    assert order["shipping_fee"]["anyOf"].count({"type": "null"}) == 1


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("OrderImportRequest", "delivery_type"),
        ("PatchedOrderChangesRequest", "delivery_type"),
        ("WebhookPingRequest", "event"),
    ],
)
def test_null_stands_beside_a_choice_that_may_be_null(description, schema, name):
    """As in answers. Inside the choice, it would make generated Python have three classes with the same words."""
    choice, null = description["components"]["schemas"][schema]["properties"][name]["anyOf"]

    assert (choice["type"], None in choice["enum"], null) == ("string", False, {"type": "null"})


def test_words_that_others_may_join_are_told_and_left_open(description):
    """By docs/changes.md kinds of events and codes in `error` may come: a client made of an `enum` would fail then."""
    told = {}
    for name, schema in description["components"]["schemas"].items():
        for field in schema.get("properties", {}).keys() & {"event", "events", "error"}:
            part = schema["properties"][field]
            if not name.endswith("Request"):
                assert "enum" not in json.dumps(part), (name, field)
                told[name, field] = part.get("items", part).get("examples")

    assert told.pop(("Error", "error")) == told.pop(("ValidationFailed", "error")) is None
    assert told.pop(("OrderBatchRefusedBody", "error")) is None  # one of all codes, which docs/errors.md lists
    assert told == {
        ("FeedEventBody", "event"): Event.Kind.values,
        ("WebhookBody", "events"): Event.Kind.values,
        ("DeliveryBody", "event"): [*Event.Kind.values, "ping"],
        ("BatchErrorBody", "error"): ["validation_failed", "duplicate"],
        ("StockErrorBody", "error"): list(Reason),
        ("ProductErrorBody", "error"): ["invalid_quantity", "invalid_entry", "duplicate"],
    }


def test_empty_parameters_are_described_where_they_are_taken(description):
    found = {
        (operation["operationId"], each["name"]): each
        for operation in operations(description).values()
        for each in operation.get("parameters", ())
    }
    may_be_empty = {key for key, each in found.items() if each.get("allowEmptyValue")}
    lists = {operation for operation, name in found if name == "cursor"}

    assert may_be_empty == {("events_list", "after"), *((operation, "cursor") for operation in lists)}
    assert "minLength" not in found["regions_lookup", "commune"]["schema"]
    assert found["regions_lookup", "wilaya"]["schema"]["minLength"] == 1


def test_nobody_is_told_to_wait_for_no_time(description):
    for operation in operations(description).values():
        for response in operation["responses"].values():
            for name in response["headers"].keys() & {"Retry-After", "X-RateLimit-Reset"}:
                assert response["headers"][name]["schema"]["minimum"] == 1


def test_what_any_call_can_get_is_said_once(description):
    for error in ("400 `bad_request`", "408 `request_timeout`", "414 `uri_too_long`", "431 `headers_too_large`"):
        assert error in description["info"]["description"]


def test_no_body_is_a_choice(description):
    """Generators make classes of its parts, none of them the whole body; or no class, and a list of anything."""
    schemas = description["components"]["schemas"]

    assert [name for name, schema in schemas.items() if schema.keys() & {"anyOf", "oneOf", "allOf"}] == []


def test_what_may_be_left_out_has_no_default(description):
    """Generated clients would send it: `page` beside each `cursor`, or to the inventory, which lists all without it."""
    assert '"default"' not in json.dumps(description)


def test_a_line_says_that_what_it_sends_wins_over_its_product(description):
    line = description["components"]["schemas"]["OrderItemImportRequest"]

    assert "unless the line sends its own" in line["properties"]["product_id"]["description"]


def test_a_ping_alone_is_described_as_tried_once(description):
    said = {kind: delivery["post"]["description"] for kind, delivery in description["webhooks"].items()}

    assert "tried once" in said.pop("ping")
    assert {"tried again" in text and "once" not in text for text in said.values()} == {True}


def test_real_answers_are_as_described(description, alice, api, api_for, stranger, monkeypatch):
    alice.rate_limit = 1000
    alice.save()
    checker = Checker(description)

    def check(path, answer, status=200):
        assert answer.status_code == status
        checker.check(path, answer)

    product = ProductFactory(account=alice)
    body = order_body(
        external_id="1", notes="x", items=[*order_body()["items"], {"product_id": str(product.id), "quantity": 1}]
    )
    imported = api.post(ORDERS, body, headers={"Idempotency-Key": "1"})
    order, one, cancel = imported.json()["id"], ORDERS + "/{id}", ORDERS + "/{id}/cancel"
    check(ORDERS, imported, 201)
    check(ORDERS, api.post(ORDERS, body, headers={"Idempotency-Key": "1"}), 201)
    lifecycle.add_call_note(
        order, lifecycle.Call(agent=UserFactory(), outcome="callback", callback_at=product.created_at)
    )
    lifecycle.confirm(order, actor=Actor(Role.SUPERVISOR, "Samira"))
    make_order(alice)
    for query in ("", "?page=9", "?status=confirmed"):
        check(ORDERS, api.get(f"{ORDERS}{query}"))
    detail = api.get(f"{ORDERS}/{order}")
    check(one, detail)
    check(one, api.get(f"{ORDERS}/{order}", headers={"If-None-Match": detail.headers["ETag"]}), 304)
    check(cancel, api.post(f"{ORDERS}/{order}/cancel"))
    shipped = make_order(alice)
    for move in ("confirm", "ship"):
        lifecycle.move(move, shipped.id, actor=Actor(Role.SUPERVISOR, "Samira"))
    check(cancel, api.post(f"{ORDERS}/{shipped.id}/cancel"), 422)
    check(one, api.get(f"{ORDERS}/{uuid4()}"), 404)
    check(cancel, api.post(f"{ORDERS}/{uuid4()}/cancel"), 404)
    calls = [
        (ORDERS, "GET", ORDERS),
        (ORDERS, "POST", ORDERS),
        (one, "GET", f"{ORDERS}/{order}"),
        (cancel, "POST", f"{ORDERS}/{order}/cancel"),
    ]
    poor = api_for(alice, scopes=[])
    for path, method, url in calls:
        check(path, stranger.generic(method, url), 401)
        check(path, poor.generic(method, url), 403)
        if method == "POST":
            for content, status in ((b"[", 400), (b" " * 1_048_577, 413), (b'{"reason":5}', 422)):
                check(path, api.generic(method, url, content, content_type="application/json"), status)
            check(path, api.generic(method, url, b"x", content_type="text/plain"), 415)
    check(ORDERS, api.get(f"{ORDERS}?page=0&status=x&created_from=x"), 422)


@pytest.mark.django_db(transaction=True)
def test_schemathesis_finds_nothing(service, tmp_path):
    """All its checks run against the running service. `tests/schemathesis_hooks.py` says how to run more by hand."""
    account = AccountFactory(rate_limit=1_000_000)
    products = [ProductFactory(account=account) for _ in range(3)]
    ids = {
        "CODSERVICE_ORDERS": ",".join(str(make_order(account).id) for _ in range(5)),
        "CODSERVICE_PENDING": ",".join(str(make_order(account).id) for _ in range(2)),
        "CODSERVICE_PRODUCTS": ",".join(f"{product.id}={product.sku}" for product in products),
    }
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        f"--config-file={settings.BASE_DIR / 'tests/schemathesis.toml'}",
        "run",
        f"{service.url}/api/schema",
        "--checks=all",
        "--max-examples=10",
        "--suppress-health-check=too_slow",  # it would complain of a busy machine
        "--seed=1",
        "--no-color",
        "--generation-database=none",
        f"--header=Authorization: Bearer {new_key(account)}",
    ]
    hooks = {
        "SCHEMATHESIS_HOOKS": "tests.schemathesis_hooks",
        "PYTHONPATH": str(settings.BASE_DIR),
        # Where the tests' own Hypothesis keeps what it knows of all characters, which takes seconds to find out.
        "HYPOTHESIS_STORAGE_DIRECTORY": str(storage_directory().path),
    }
    result = subprocess.run(
        command, env=os.environ | hooks | ids, cwd=tmp_path, capture_output=True, text=True, timeout=1800, check=False
    )
    assert result.returncode == 0, result.stdout[-8000:]
    assert re.search(r" ([1-9][0-9]*) generated, \1 passed", result.stdout), result.stdout[-3000:]


def test_the_pages_of_the_description_need_nothing_inline_and_nothing_from_outside(stranger):
    page = stranger.get("/api/docs")

    html = page.content.decode()
    assert page.status_code == 200
    assert "<style" not in html
    assert re.findall(r"<script(?! src=\"/)", html) == []
    assert re.findall(r"(?:src|href)=\"(?![/#])", html) == []

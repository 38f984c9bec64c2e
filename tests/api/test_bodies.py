"""Request bodies: one JSON object in UTF-8, read strictly. Anything else is refused, and nothing is written."""

import gzip
import json
from collections.abc import Callable
from time import thread_time

import pytest

from codservice.wire import load_json
from orders.models import Order
from tests.api.json_texts import BAD_JSON, GOOD_JSON, MIB
from tests.factories import AccountFactory, make_order, order_body
from tests.harness.background import eventually

ORDERS = "/api/v1/orders"
BODY = json.dumps(order_body())


def with_field(value: str) -> bytes:
    """Return a good order with one more field, which the service does not know."""
    return f'{BODY[:-1]}, "unknown": {value}}}'.encode("utf-8", "surrogatepass")


BAD_DOCUMENTS = {
    "white space": b" \n",
    "null": b"null",
    "number": b"5",
    "text": b'"text"',
    "true": b"true",
    "array": b"[]",
    "array of orders": f"[{BODY}]".encode(),
    "byte order mark": b"\xef\xbb\xbf" + BODY.encode(),
    "UTF-16": BODY.encode("utf-16"),
    "UTF-16 without mark": BODY.encode("utf-16-le"),
    "UTF-32": BODY.encode("utf-32"),
    "Latin-1": '{"customer_name": "Aïcha"}'.encode("latin-1"),
    "invalid UTF-8": b'{"customer_name": "\xff"}',
    "overlong UTF-8": b'{"customer_name": "\xc0\x80"}',
    "cut off UTF-8": b'{"customer_name": "\xe2\x82',
    "two objects": f"{BODY}{BODY}".encode(),
    "trailing text": f"{BODY} x".encode(),
    "trailing NUL": BODY.encode() + b"\x00",
    "form": b"customer_name=a&customer_phone=0550123456",
    "repeated key": BODY.encode().replace(b'"shipping_fee"', b'"total_amount"'),
}


@pytest.mark.parametrize("value", GOOD_JSON.values(), ids=GOOD_JSON)
def test_any_json_passes_in_a_field_that_is_not_known(api, value):
    assert api.post(ORDERS, with_field(value)).status_code == 201


@pytest.mark.parametrize("value", GOOD_JSON.values(), ids=GOOD_JSON)
@pytest.mark.parametrize("field", ["customer_name", "total_amount", "items"])
def test_any_json_in_a_known_field_is_stored_or_refused_but_never_a_crash(api, field, value):
    body = json.dumps(order_body(**{field: "VALUE"})).replace('"VALUE"', value).encode()
    assert api.post(ORDERS, body).status_code in (201, 422)


@pytest.mark.parametrize("value", BAD_JSON.values(), ids=BAD_JSON)
def test_what_is_no_json_is_malformed(api, value):
    assert_malformed(api.post(ORDERS, with_field(value)))


@pytest.mark.parametrize("document", BAD_DOCUMENTS.values(), ids=BAD_DOCUMENTS)
def test_what_is_no_json_object_in_utf8_is_malformed(api, document):
    assert_malformed(api.post(ORDERS, document))


def test_a_byte_order_mark_which_no_editor_shows_is_named(api):
    answer = api.post(ORDERS, b"\xef\xbb\xbf" + BODY.encode())

    assert_malformed(answer)
    assert "byte order mark" in answer.json()["message"]


def test_an_empty_list_which_php_makes_of_an_empty_array_is_named(api, alice):
    """Laravel's `Http::post($url)` sends one where no data is given."""
    answer = api.post(f"{ORDERS}/{make_order(alice).id}/cancel", b"[]")

    assert (answer.status_code, answer.json()["error"]) == (400, "malformed_json")
    assert answer.json()["message"].endswith(
        "It is an empty list, as PHP writes an empty array. Send {}, or nothing if no body is needed."
    )


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (BAD_DOCUMENTS["Latin-1"], "Its byte EF at position 20 is not UTF-8."),
        (BAD_DOCUMENTS["UTF-16"], "Its byte FF at position 0 is not UTF-8."),
        (BAD_DOCUMENTS["cut off UTF-8"], "Its byte E2 at position 19 is not UTF-8."),
        (BAD_DOCUMENTS["array of orders"], "It is a list."),
        (json.dumps(BODY).encode(), "It is a string: was it encoded twice?"),
    ],
    ids=["Latin-1", "UTF-16", "cut off UTF-8", "array of orders", "encoded twice"],
)
def test_what_keeps_it_from_being_an_object_in_utf8_is_named(api, document, said):
    answer = api.post(ORDERS, document)

    assert_malformed(answer)
    assert answer.json()["message"].endswith(f" in UTF-8. {said}")


@pytest.mark.parametrize(
    ("key", "shown"), [("phone", '"phone"'), ("\\ud800", '"\\ud800"'), ("x" * 5000, f'"{"x" * 50}"')]
)
def test_a_key_that_is_repeated_is_named(api, key, shown):
    answer = api.post(ORDERS, f'{{"items": [{{"{key}": 1, "{key}": 2}}]}}'.encode())

    assert_malformed(answer)
    assert answer.json()["message"].endswith(f" It repeats the key {shown} inside one object.")


def assert_malformed(answer):
    assert (answer.status_code, answer.json()["error"]) == (400, "malformed_json")
    assert answer.json().keys() == {"error", "message"}
    assert answer.json()["message"].startswith("The body must be one JSON object in UTF-8.")
    assert not Order.objects.exists()


def test_a_malformed_body_of_a_cancel_is_refused_as_well(api, alice):
    order = make_order(alice)
    assert api.post(f"{ORDERS}/{order.id}/cancel", b"[]").json()["error"] == "malformed_json"
    order.refresh_from_db()
    assert order.status == "pending_confirmation"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", ORDERS),
        ("POST", f"{ORDERS}/batch"),
        ("PUT", "/api/v1/shipping-fees"),
        ("PUT", "/api/v1/inventory"),
        ("PUT", "/api/v1/products"),
        ("POST", "/api/v1/webhooks"),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "", "application/x-www-form-urlencoded"])
def test_no_body_where_one_is_needed_is_malformed(api, method, path, content_type):
    assert_malformed(api.generic(method, path, b"", headers={"Content-Type": content_type}))


def test_a_key_that_came_without_a_body_is_free_for_the_body(api):
    key = {"Idempotency-Key": "order-1042"}
    assert_malformed(api.post(ORDERS, b"", headers=key))
    assert api.post(ORDERS, BODY.encode(), headers=key).status_code == 201


def test_a_recovery_needs_a_body(api, webhook_to):
    webhook = webhook_to("https://shop.example/hooks")
    assert_malformed(api.post(f"/api/v1/webhooks/{webhook.id}/recover", b""))


@pytest.mark.parametrize("content_type", ["application/json", "", "application/x-www-form-urlencoded", "text/plain"])
def test_a_change_without_a_body_changes_nothing(api, alice, webhook_to, content_type):
    for path in (f"{ORDERS}/{make_order(alice).id}", f"/api/v1/webhooks/{webhook_to('https://shop.example/hooks').id}"):
        before = api.get(path).content
        answer = api.patch(path, b"", headers={"Content-Type": content_type})
        assert (answer.status_code, answer.content) == (200, before)


def test_where_a_body_is_optional_none_is_fine(api, alice):
    assert api.post(f"{ORDERS}/{make_order(alice).id}/cancel", b"").status_code == 200


# --- Size ----------------------------------------------------------------------------------------------------------


def test_a_body_of_exactly_one_mebibyte_is_read(api):
    assert api.post(ORDERS, BODY.encode().ljust(MIB)).status_code == 201


@pytest.mark.parametrize("size", [MIB + 1, 3_000_000])
def test_a_larger_body_is_refused_before_it_is_read(api, size):
    answer = api.post(ORDERS, BODY.encode().ljust(size))
    assert (answer.status_code, answer.json()["error"]) == (413, "payload_too_large")
    assert not Order.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        order_body(items=[{}] * 200_000),
        order_body(items=order_body()["items"] * 101),
        order_body(items=[{**order_body()["items"][0], "attributes": {str(n): "" for n in range(60_000)}}]),
        order_body(items=[{**order_body()["items"][0], "product_name": "x" * 10_000}] * 100),
        {f"field{n}": n for n in range(50_000)},
        order_body(notes="e" + "\u0301" * 4000 + "\u0316" * 3999),
        order_body(notes="\u0f73" * 8000),
    ],
    ids=[
        "200,000 items",
        "101 items",
        "60,000 attributes",
        "long names",
        "50,000 fields",
        "8,000 marks on a letter",
        "8,000 signs of two marks",
    ],
)
def test_many_things_in_a_body_are_refused_for_little_more_than_reading_it_costs(db, api_for, body):
    api = api_for(AccountFactory(rate_limit=1_000_000))  # more turns than a key has requests
    text = json.dumps(body, separators=(",", ":")).encode()

    def read() -> None:
        load_json(text)
        assert api.post(ORDERS, BODY.encode()).status_code == 201

    def refuse() -> None:
        assert api.post(ORDERS, text).status_code in (413, 422)

    costs = list[tuple[float, float]]()

    def costs_little_more() -> bool:
        costs.append((cost(refuse), cost(read)))
        return len(costs) >= 5 and min(refused for refused, _ in costs) < 4 * min(read for _, read in costs)

    # In turns, and the least of each, because other work on the machine makes some dearer.
    eventually(costs_little_more)


def cost(do: Callable[[], None]) -> float:
    """Return seconds of processor time."""
    before = thread_time()
    do()
    return thread_time() - before


# --- Content types -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        'application/json; charset="utf-8"',
        "application/json; charset=utf8",
        "Application/JSON",
        "application/json; version=1",
        "application/json;",
    ],
)
def test_json_is_taken_however_its_type_is_written(api, content_type):
    assert api.post(ORDERS, BODY.encode(), content_type=content_type).status_code == 201


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/jsonp",
        "application/vnd.api+json",
        "application/json, application/json",
        "application/json; charset=latin-1",
        "application/json; charset=utf-16",
        "application/json; charset=utf-7",
        "application/json; charset=bogus",
        "application/json; charset=",
        "application",
        "/",
        "application/json/json",
        "\u00e9",
    ],
)
def test_other_types_are_unsupported(api, content_type):
    answer = api.generic("POST", ORDERS, BODY.encode(), content_type=content_type)
    assert (answer.status_code, answer.json()["error"]) == (415, "unsupported_media_type")
    assert not Order.objects.exists()


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP", "deflate", "br", "zstd", "compress", "identity, gzip"])
def test_a_compressed_body_is_refused_in_words(api, coding):
    answer = api.post(ORDERS, gzip.compress(BODY.encode()), headers={"Content-Encoding": coding})
    assert (answer.status_code, answer.json()["error"]) == (415, "unsupported_media_type")
    assert "not compressed" in answer.json()["message"]
    assert not Order.objects.exists()


@pytest.mark.parametrize("coding", ["", "identity", "UTF-8"])
def test_a_body_that_is_not_compressed_is_read_whatever_is_said_of_it(api, coding):
    assert api.post(ORDERS, BODY.encode(), headers={"Content-Encoding": coding}).status_code == 201

"""POST /api/v1/orders: what is required, understood, returned and refused."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from django.db import connection
from psycopg import _queries

from orders import serializers
from orders.models import Order, OrderItem, StatusChange
from tests.factories import ProductFactory, make_order, order_body
from tests.harness.background import at_once
from tests.harness.client import ApiClient
from webhooks.models import Delivery, Event

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db
ITEM = order_body()["items"][0]


def exact(answer):
    """Return the body with each number that has a point as the decimal that was written."""
    return json.loads(answer.content, parse_float=Decimal)


def errors(answer):
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_failed")
    assert not Order.objects.filter(external_id__isnull=True).exists()
    return answer.json()["errors"]


def test_the_answer_says_where_the_order_can_be_read(api):
    answer = api.post(ORDERS, order_body())
    location = answer.headers["Location"]
    assert location == f"{ORDERS}/{answer.json()['id']}"
    assert api.get(location).json()["id"] == answer.json()["id"]


def test_the_answer_is_the_order_itself(api):
    answer = api.post(ORDERS, order_body(notes="Sonnez", external_id="W-17"))
    assert answer.status_code == 201
    body = exact(answer)
    order = Order.objects.get()
    (item,) = order.items.all()
    assert body == {
        "id": str(order.id),
        "external_id": "W-17",
        "status": "pending_confirmation",
        "customer": {
            "name": "Amine Benali",
            "phone": "0550 12 34 56",
            "phone_2": None,
            "address": "12 rue Didouche Mourad",
            "wilaya": "16",
            "commune": "1621",
        },
        "total_amount": Decimal("4500.50"),
        "shipping_fee": Decimal("400.00"),
        "delivery_type": "home",
        "source": None,
        "notes": "Sonnez",
        "items": [
            {
                "id": str(item.id),
                "product_id": None,
                "product_name": "Robe kabyle",
                "sku": None,
                "quantity": 2,
                "unit_price": Decimal("2050.25"),
                "attributes": {"size": "M"},
            }
        ],
        "created_at": body["created_at"],
    }
    assert UUID(body["id"]).version == 7
    created_at = datetime.fromisoformat(body["created_at"])
    assert created_at == order.created_at
    assert abs(created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert body["created_at"].endswith(("Z", "+00:00"))
    assert answer.content.count(b'"total_amount":4500.50') == 1, "a number, with two places"


def test_the_least_that_is_needed(api):
    needed = ("customer_name", "customer_phone", "customer_address", "customer_wilaya", "total_amount")
    item = {"product_name": "Robe", "quantity": 1, "unit_price": 0}
    answer = api.post(ORDERS, {**{name: order_body()[name] for name in needed}, "items": [item]})
    assert answer.status_code == 201
    body = answer.json()
    assert (body["customer"]["commune"], body["shipping_fee"], body["notes"], body["external_id"]) == (
        None,
        0,
        "",
        None,
    )
    assert body["items"][0]["attributes"] == {}


@pytest.mark.parametrize(
    "field",
    ["customer_commune", "shipping_fee", "notes", "external_id", "customer_phone_2", "delivery_type", "source"],
)
def test_null_is_the_same_as_not_sent(api, field):
    assert api.post(ORDERS, order_body(**{field: None})).status_code == 201


@pytest.mark.parametrize("field", ["product_id", "attributes"])
def test_null_in_a_line_is_the_same_as_not_sent(api, field):
    assert api.post(ORDERS, order_body(items=[{**ITEM, field: None}])).status_code == 201


def test_a_second_phone_how_it_is_delivered_and_where_it_came_from_are_kept(api):
    body = order_body(customer_phone_2=" 00213 21 55 66 77", delivery_type="desk", source=" été-2026 ")
    answer = api.post(ORDERS, body).json()
    assert answer["customer"]["phone_2"] == "00213 21 55 66 77"
    assert (answer["delivery_type"], answer["source"]) == ("desk", "été-2026")
    order = Order.objects.get()
    assert (order.customer_phone, order.phone_2_e164) == ("0550 12 34 56", "+21321556677")
    detail = api.get(f"{ORDERS}/{order.id}").json()
    assert {name: detail[name] for name in ("delivery_type", "source")} == {
        "delivery_type": "desk",
        "source": "été-2026",
    }
    assert detail["customer"]["phone_2"] == "00213 21 55 66 77"


@pytest.mark.parametrize("field", ["customer_phone_2", "source"])
def test_a_blank_second_phone_or_source_is_none(api, field):
    assert api.post(ORDERS, order_body(**{field: "  "})).status_code == 201
    order = Order.objects.get()
    assert (order.customer_phone_2, order.phone_2_e164, order.source) == (None, None, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("delivery_type", value) for value in ("", "Home", "home ", "door", 1, True, [], {}, ["home"])),
        *(("customer_phone_2", value) for value in ("1", "0550", 550123456, True, [], "0550123456\0")),
        *(("source", value) for value in ("x" * 65, "a\nb", "\0", 5, [], {})),
    ],
    ids=str,
)
def test_what_they_cannot_be(api, field, value):
    assert errors(api.post(ORDERS, order_body(**{field: value}))).keys() == {field}


@pytest.mark.parametrize("commune", ["", "  "])
def test_an_empty_commune_is_the_same_as_not_sent(api, commune):
    answer = api.post(ORDERS, order_body(customer_commune=commune))
    assert (answer.status_code, answer.json()["customer"]["commune"]) == (201, None)


def test_everything_is_missing_at_once(api):
    assert errors(api.post(ORDERS, {})).keys() == {
        "customer_name",
        "customer_phone",
        "customer_address",
        "customer_wilaya",
        "total_amount",
        "items",
    }


def test_all_problems_are_said_at_once(alice, api):
    make_order(alice, external_id="taken")
    body = order_body(
        customer_name="",
        customer_phone="123",
        customer_address="x" * 501,
        customer_wilaya="Atlantis",
        total_amount=-1,
        shipping_fee="a",
        notes="\x00",
        external_id="taken",
        items=[
            {"quantity": 0, "product_id": "x", "attributes": {"a": 1, "b": "\x00", "\x00": "c"}},
            {},
            5,
            {**ITEM, "product_id": str(uuid4())},
            {**ITEM, "quantity": 10_001, "unit_price": "1.001", "product_name": " "},
        ],
    )
    assert errors(api.post(ORDERS, body)).keys() == {
        "customer_name",
        "customer_phone",
        "customer_address",
        "customer_wilaya",
        "total_amount",
        "shipping_fee",
        "notes",
        "external_id",
        "items.0.quantity",
        "items.0.product_id",
        "items.0.attributes",
        "items.0.attributes.a",
        "items.0.attributes.b",
        "items.1.quantity",
        "items.1.product_name",
        "items.1.unit_price",
        "items.2",
        "items.3.product_id",
        "items.4.quantity",
        "items.4.unit_price",
        "items.4.product_name",
    }


def test_a_key_called_like_our_own_word_hides_no_problem(api):
    body = order_body(items=[{**ITEM, "attributes": {"": "x", "non_field_errors": 5}}])
    (sentences,) = errors(api.post(ORDERS, body)).values()
    assert len(sentences) == 2


def test_an_unknown_product_and_a_taken_number_are_said_together(alice, api):
    make_order(alice, external_id="taken")
    body = order_body(external_id="taken", items=[{"product_id": str(uuid4()), "quantity": 1}])
    assert errors(api.post(ORDERS, body)).keys() == {"external_id", "items.0.product_id"}


def test_unknown_fields_are_ignored(api):
    assert api.post(ORDERS, order_body(colour="red", items=[{**ITEM, "colour": {"deep": [1]}}])).status_code == 201


def test_what_is_ours_to_decide_cannot_be_sent(api, charlie):
    forged = {
        "id": str(uuid4()),
        "status": "confirmed",
        "account": str(charlie.id),
        "account_id": str(charlie.id),
        "created_at": "2001-01-01T00:00:00Z",
        "updated_at": "2001-01-01T00:00:00Z",
        "confirmed_at": "2001-01-01T00:00:00Z",
        "version": 99,
        "phone_e164": "+213000000000",
        "wilaya_code": "31",
        "cancel_reason": "x",
        "imported_items": [],
    }
    answer = api.post(
        ORDERS, order_body(**forged, items=[{**ITEM, "id": forged["id"], "sku": "FORGED", "position": 7}])
    )
    order = Order.objects.get()
    assert answer.status_code == 201
    assert str(order.id) != forged["id"]
    assert order.account.name == "Alice's shop"
    assert (order.status, order.version, order.confirmed_at) == ("pending_confirmation", 1, None)
    assert (order.phone_e164, order.wilaya_code, order.cancel_reason) == ("+213550123456", "16", "")
    assert order.created_at.year > 2001
    item = order.items.get()
    assert (str(item.id) != forged["id"], item.sku, item.position) == (True, None, 0)


def test_an_import_begins_the_history_and_tells_of_it(api, alice, register):
    webhook = register(alice, events=["order.created"])
    register(alice)
    name = 'سميرة "\\ \u2028 🎁'
    answer = api.post(ORDERS, order_body(customer_name=name, external_id="1042", total_amount=12.5)).json()
    change = StatusChange.objects.get()
    assert (change.from_status, change.to_status, change.actor) == (None, "pending_confirmation", "API key Test")
    assert change.at == Order.objects.get().created_at
    event = Event.objects.get()
    at = answer["created_at"]
    assert (event.kind, event.account, event.created_at) == ("order.created", alice, change.at)
    assert '"total_amount":12.50,' in event.body
    assert json.loads(event.body) == {
        "event": "order.created",
        "timestamp": at,
        "data": {
            "id": answer["id"],
            "status": "pending_confirmation",
            "customer_name": name,
            "customer_phone": "0550 12 34 56",
            "total_amount": 12.5,
            "updated_at": at,
            "external_id": "1042",
        },
    }
    delivery = Delivery.objects.get()
    assert (delivery.webhook, delivery.event, delivery.status) == (webhook, event, "pending")


def test_what_is_refused_is_not_told_of(api):
    api.post(ORDERS, order_body(external_id="1"))
    assert api.post(ORDERS, order_body(external_id="1")).status_code == 422
    assert api.post(ORDERS, order_body(total_amount=-1)).status_code == 422
    assert Event.objects.count() == 1


# --- Regions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wilaya", ["16", 16, "016", "DZ-16", "Alger", "ALGER", "alger", "الجزائر", "16 - Alger", "١٦"])
@pytest.mark.parametrize("commune", ["Bab Ezzouar", "1621", 1621, "bab-ezzouar", "باب الزوار"])
def test_regions_are_understood_and_come_back_as_codes(api, wilaya, commune):
    answer = api.post(ORDERS, order_body(customer_wilaya=wilaya, customer_commune=commune))
    assert answer.status_code == 201
    assert (answer.json()["customer"]["wilaya"], answer.json()["customer"]["commune"]) == ("16", "1621")
    order = Order.objects.get()
    assert (order.customer_wilaya, order.customer_commune) == (str(wilaya), str(commune)), "as sent, for the agent"


@pytest.mark.parametrize("sent", [16.0, -1, 100_000, 10**400, True, ["16"]])
@pytest.mark.parametrize("field", ["customer_wilaya", "customer_commune"])
def test_a_region_that_is_neither_text_nor_a_code_is_told_what_both_are(api, field, sent):
    said = "Must be a string, or a code as an integer from 0 to 99999, without a point."
    assert errors(api.post(ORDERS, order_body(**{field: sent}))) == {field: [said]}


@pytest.mark.parametrize("wilaya", [0, 70, -1, 16.0, True, "70", "Atlantis", "", " ", None, [], {}, "x" * 300, 10**400])
def test_an_unknown_wilaya_is_refused(api, wilaya):
    assert errors(api.post(ORDERS, order_body(customer_wilaya=wilaya))).keys() == {"customer_wilaya"}


@pytest.mark.parametrize("commune", ["Oran", "3101", 3101, "Atlantis", 0, 16.5, True, [], {}])
def test_a_commune_must_lie_in_the_wilaya(api, commune):
    assert errors(api.post(ORDERS, order_body(customer_commune=commune))).keys() == {"customer_commune"}


def test_spaces_around_a_place_are_neither_looked_at_nor_kept(api):
    kept = []
    for width in (0, 1, 300, 100_000):
        around = " " * width
        body = order_body(customer_wilaya=f"{around}alger{around}", customer_commune=f"{around}bab ezzouar{around}")
        answer = api.post(ORDERS, body)
        assert (answer.status_code, answer.json()["customer"]["commune"]) == (201, "1621"), width
        kept.append(serializers._code.cache_info().currsize)
    assert kept == kept[:1] * 4, "one text, however it came"


# --- Products ---------------------------------------------------------------------------------------------------------


def test_name_price_and_sku_come_from_the_catalog(alice, api):
    product = ProductFactory(account=alice, name="Gandoura", price=Decimal("2500.10"), sku="G-1")
    answer = api.post(ORDERS, order_body(items=[{"product_id": str(product.id).upper(), "quantity": 3}]))
    (item,) = exact(answer)["items"]
    assert item["product_id"] == str(product.id)
    assert (item["product_name"], item["unit_price"], item["sku"]) == ("Gandoura", Decimal("2500.10"), "G-1")


def test_what_is_sent_wins_over_the_catalog(alice, api):
    product = ProductFactory(account=alice)
    sent = {"product_id": str(product.id), "quantity": 1, "product_name": "Gandoura rouge", "unit_price": 0}
    (item,) = api.post(ORDERS, order_body(items=[sent])).json()["items"]
    assert (item["product_name"], item["unit_price"], item["sku"]) == ("Gandoura rouge", 0, product.sku)


def test_anothers_product_is_as_unknown_as_none(api, charlie):
    foreign = ProductFactory(account=charlie)
    answers = [
        api.post(ORDERS, order_body(items=[{**ITEM, "product_id": str(id_)}])).content for id_ in (foreign.id, uuid4())
    ]
    assert answers[0] == answers[1]
    assert json.loads(answers[0])["errors"] == {"items.0.product_id": ["No product of this account has this id."]}


@pytest.mark.parametrize(
    "form", ["{{{0}}}", "urn:uuid:{0}", " {0}", "{0}\n", "{hex}", "x", "", 5, True, [], {}, 0.5, "{0}{0}", "\x00"]
)
def test_a_product_id_has_one_form(alice, api, form):
    product = ProductFactory(account=alice)
    sent = form.format(product.id, hex=product.id.hex) if isinstance(form, str) else form
    assert errors(api.post(ORDERS, order_body(items=[{**ITEM, "product_id": sent}]))).keys() == {"items.0.product_id"}


def test_a_100_lines_are_kept_in_their_order(alice, api):
    products = [ProductFactory(account=alice) for _ in range(5)]
    items = [{"product_id": str(products[n % 5].id), "quantity": n + 1} for n in range(100)]
    answer = api.post(ORDERS, order_body(items=items))
    assert [item["quantity"] for item in answer.json()["items"]] == list(range(1, 101))
    detail = api.get(f"{ORDERS}/{answer.json()['id']}").json()
    assert detail["items"] == answer.json()["items"]


@pytest.mark.parametrize("items", [[], [ITEM] * 101, {}, "x", None, 5, {"0": ITEM}, [[ITEM]], [None], ["x"]], ids=repr)
def test_items_are_1_to_100_objects(api, items):
    assert all(path.startswith("items") for path in errors(api.post(ORDERS, order_body(items=items))))
    assert not OrderItem.objects.exists()


@pytest.mark.parametrize(
    ("items", "path", "sentence"),
    [
        ({"0": ITEM}, "items", "Must be a list."),
        ([], "items", "Must have 1 to 100 entries."),
        ([ITEM] * 101, "items", "Must have 1 to 100 entries."),
        (["x"], "items.0", "Must be an object."),
        ([None], "items.0", "Must be an object."),
    ],
    ids=["object", "none", "101", "text", "null"],
)
def test_what_is_wrong_with_the_list_is_said_in_the_words_of_json(api, items, path, sentence):
    assert errors(api.post(ORDERS, order_body(items=items))) == {path: [sentence]}


# --- external_id ------------------------------------------------------------------------------------------------------


def test_an_external_id_is_unique_in_its_account(api, charlies_api):
    there = api.post(ORDERS, order_body(external_id="1")).json()["id"]
    answer = api.post(ORDERS, order_body(external_id="1", customer_name="Nadia"))
    assert answer.json() == {
        "error": "validation_failed",
        "message": f"Some fields cannot be used. `errors` says which and why. Order {there} has this external_id.",
        "errors": {"external_id": ["Another order of this account already has it."]},
    }
    assert Order.objects.count() == OrderItem.objects.count() == StatusChange.objects.count() == 1
    assert charlies_api.post(ORDERS, order_body(external_id="1")).status_code == 201
    assert api.post(ORDERS, order_body(external_id="2")).status_code == 201


def test_two_spellings_of_one_text_are_one_external_id(api):
    assert api.post(ORDERS, order_body(external_id="\u00e91")).status_code == 201
    assert api.post(ORDERS, order_body(external_id=" e\u03011 ")).status_code == 422


@pytest.mark.parametrize("external_id", ["", " ", "x" * 65, 5, True, ["1"], "\x00", "a\nb", "\u200b"])
def test_an_external_id_is_1_to_64_characters(api, external_id):
    assert errors(api.post(ORDERS, order_body(external_id=external_id))).keys() == {"external_id"}


@pytest.mark.django_db(transaction=True)
def test_of_20_at_once_with_one_external_id_one_is_imported(alice, api_for):
    key = api_for(alice).defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    answers = at_once(20, lambda _: ApiClient(key).post(ORDERS, order_body(external_id="1")).status_code)
    assert sorted(answers) == [201] + [422] * 19
    assert Order.objects.count() == OrderItem.objects.count() == StatusChange.objects.count() == 1


def test_no_statement_of_an_import_is_read_anew_by_the_driver(api):
    """psycopg caches what it has parsed only of statements up to a certain length; none of an import is longer."""
    sent = []

    def note(execute, sql, *args):
        sent.append(sql)
        return execute(sql, *args)

    with connection.execute_wrapper(note):
        assert api.post(ORDERS, order_body(external_id="1042")).status_code == 201
    assert any("orders_orderitem" in sql for sql in sent)
    assert max(map(len, sent)) <= _queries.MAX_CACHED_STATEMENT_LENGTH

"""`/api/v1/products`: products made and changed by sku, each entry by itself; read in pages and one by one."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from inventory import catalog
from inventory.catalog import Draft
from inventory.models import Product, StockMovement
from tests.factories import ProductFactory
from tests.harness.client import ApiClient
from tests.inventory.stock import INVENTORY, kinds_told, movements, stock_of, told
from webhooks.models import Event

pytestmark = pytest.mark.django_db
PRODUCTS = "/api/v1/products"
ROBE = {"sku": "ROBE", "name": "Robe kabyle", "price": "4500.00"}


@pytest.fixture
def save(api: ApiClient) -> Any:
    """Alice's `save({"sku": …, …}, …)`."""

    def send(*entries: Any) -> Any:
        return api.put(PRODUCTS, {"products": list(entries)})

    return send


def records_told() -> list[dict[str, Any]]:
    events = Event.objects.filter(kind="product.updated").order_by("id")
    return [json.loads(event.body)["data"] for event in events]


def test_a_product_is_made_with_all_that_can_be_said_of_it(api: ApiClient, save: Any) -> None:
    link, script = "https://shop.example/robe.jpg", "Brodée à la main.\nS, M, L."
    answer = save({**ROBE, "is_active": False, "stock_quantity": 7, "image_url": link, "script": script})

    product = Product.objects.get()
    made = {"id": str(product.id), "sku": "ROBE", "stock_quantity": 7}
    assert (answer.status_code, answer.json()) == (200, {"created": [made], "updated": [], "errors": []})
    detail = api.get(f"{PRODUCTS}/{product.id}").json()
    assert detail == {
        **made,
        "name": "Robe kabyle",
        "price": "4500.00",
        "is_active": False,
        "image_url": link,
        "script": script,
        "created_at": detail["created_at"],
        "updated_at": detail["created_at"],
    }
    assert movements(product) == told(product) == [(0, 7)]
    assert StockMovement.objects.get().actor == "API key Test"
    assert records_told() == api.get(INVENTORY).json()["data"]
    assert kinds_told() == {"product.updated": 1, "inventory.updated": 1}


def test_what_is_left_out_is_nothing_of_a_new_product_and_stays_of_a_known_one(api: ApiClient, save: Any) -> None:
    assert save(ROBE).status_code == 200
    new = Product.objects.get()
    assert (new.is_active, new.stock_quantity, new.image_url, new.script) == (True, 0, "", "")
    assert kinds_told() == {"product.updated": 1}  # no stock has changed

    said = {"is_active": False, "image_url": "https://shop.example/1.jpg", "script": "Solde"}
    save({**ROBE, **said})
    for left_out in ({}, dict.fromkeys(said)):
        answer = save({**ROBE, "name": "Robe", **left_out})

    detail = api.get(f"{PRODUCTS}/{new.id}").json()
    assert {name: detail[name] for name in said} == said
    assert (detail["name"], answer.json()["updated"][0]["id"]) == ("Robe", str(new.id))
    save({**ROBE, "image_url": "", "script": ""})
    assert Product.objects.values_list("image_url", "script").get() == ("", "")


def test_what_is_so_already_is_not_written_again(save: Any) -> None:
    save({**ROBE, "stock_quantity": 3, "script": "x"})
    before, events = Product.objects.values().get(), kinds_told()

    answer = save({**ROBE, "price": 4500, "stock_quantity": 3, "is_active": True})

    assert [each["sku"] for each in answer.json()["updated"]] == ["ROBE"]
    assert (Product.objects.values().get(), kinds_told()) == (before, events)


def test_the_stock_of_a_known_product_stays_and_is_answered(save: Any) -> None:
    """The same request may therefore be sent again, whatever was sold meanwhile."""
    save({**ROBE, "stock_quantity": 10})
    Product.objects.update(stock_quantity=4)

    answer = save({**ROBE, "name": "Robe", "stock_quantity": 10})

    product = Product.objects.get()
    assert answer.json()["updated"] == [{"id": str(product.id), "sku": "ROBE", "stock_quantity": 4}]
    assert (product.stock_quantity, product.name, movements(product)) == (4, "Robe", [(0, 10)])
    assert records_told()[-1]["stock_quantity"] == 4


@pytest.mark.parametrize("changed", [{"image_url": "https://shop.example/2.jpg"}, {"script": "neu"}, {"price": 1}])
def test_each_change_of_the_record_is_told(save: Any, changed: dict[str, Any]) -> None:
    save(ROBE)
    save({**ROBE, **changed})
    assert kinds_told() == {"product.updated": 2}


def test_good_entries_are_applied_beside_bad_ones(alice: Account, charlie: Account, save: Any) -> None:
    ProductFactory(account=charlie, sku="ROBE", name="Charlie's")
    known = ProductFactory(account=alice, sku="SAC")
    good = {"name": "x", "price": 1}
    entries: list[tuple[Any, str | None]] = [
        ({**ROBE, "id": str(known.id), "account_id": str(charlie.id), "colour": "red"}, None),
        ({**ROBE, "sku": " ROBE ", "name": "Second"}, "duplicate"),
        ({"sku": "SAC", **good}, None),
        ({"sku": "A", **good, "price": -1}, "invalid_entry"),
        ({"sku": "A2", **good}, None),
        (None, "invalid_entry"),
        ([], "invalid_entry"),
        ({}, "invalid_entry"),
        (good, "invalid_entry"),
        ({"sku": "", **good}, "invalid_entry"),
        ({"sku": "x" * 65, **good}, "invalid_entry"),
        ({"sku": "A\0B", **good}, "invalid_entry"),
        ({"sku": 5, **good}, "invalid_entry"),
        ({"sku": "B", "price": 1}, "invalid_entry"),
        ({"sku": "C", "name": " ", "price": 1}, "invalid_entry"),
        ({"sku": "D", "name": "x"}, "invalid_entry"),
        ({"sku": "E", **good, "price": "1,5"}, "invalid_entry"),
        ({"sku": "F", **good, "price": 100000000}, "invalid_entry"),
        ({"sku": "G", **good, "is_active": "yes"}, "invalid_entry"),
        ({"sku": "H", **good, "is_active": 1}, "invalid_entry"),
        ({"sku": "I", **good, "stock_quantity": -1}, "invalid_quantity"),
        ({"sku": "J", **good, "stock_quantity": "2"}, "invalid_quantity"),
        ({"sku": "K", **good, "stock_quantity": 2.0}, "invalid_quantity"),
        ({"sku": "L", **good, "stock_quantity": True, "price": None}, "invalid_entry"),
        ({"sku": "M", **good, "script": "x" * 2001}, "invalid_entry"),
        ({"sku": "N", **good, "script": "a\u0007"}, "invalid_entry"),
        ({"sku": "O", **good, "script": ["x"]}, "invalid_entry"),
    ]

    answer = save(*(entry for entry, _ in entries))

    body = answer.json()
    assert answer.status_code == 207
    assert [done["sku"] for done in body["created"]] == ["ROBE", "A2"]
    assert [done["sku"] for done in body["updated"]] == ["SAC"]
    assert [(error["index"], error["error"]) for error in body["errors"]] == [
        (index, error) for index, (_, error) in enumerate(entries) if error
    ]
    assert body["errors"][0]["sku"] == " ROBE "
    assert all(error["message"] for error in body["errors"])
    assert Product.objects.filter(account=alice).count() == 3
    assert Product.objects.get(account=charlie).name == "Charlie's"


LINKS = {
    "http://shop.example/a.jpg": "https://",
    "//shop.example/a.jpg": "complete",
    "shop.example/a.jpg": "complete",
    "javascript:alert(1)": "https://",
    "data:image/png;base64,AA": "https://",
    "https://": "complete",
    "https://[::1": "complete",
    "https://anna:pw@shop.example/a.jpg": "password",
    "https://shop.example/" + "a" * 2048: "2048",
    "https://shop.example/" + "é" * 1000: "encoded",
    "https://shop.example/a\nb": "control",
    "\ud800": "Unicode",
    " ": "empty",
    "5": "complete",
}


@pytest.mark.parametrize(("link", "why"), LINKS.items(), ids=range(len(LINKS)))
def test_a_picture_is_an_https_link(save: Any, api: ApiClient, link: str, why: str) -> None:
    body = json.dumps({"products": [{**ROBE, "image_url": link}]})
    answer = api.put(PRODUCTS, body)

    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["products.0.image_url"])
    assert why in answer.json()["errors"]["products.0.image_url"][0]
    assert not Product.objects.exists()


def test_a_link_is_kept_as_browsers_read_it(save: Any) -> None:
    save({**ROBE, "image_url": " HTTPS://Shop.Example/robe été.jpg "})
    assert Product.objects.get().image_url == "https://shop.example/robe%20%C3%A9t%C3%A9.jpg"
    before = kinds_told()
    save({**ROBE, "image_url": "https://shop.example/robe%20%C3%A9t%C3%A9.jpg"})
    assert kinds_told() == before


def test_the_second_entry_of_a_sku_is_a_duplicate_even_when_the_first_was_refused(save: Any) -> None:
    answer = save({**ROBE, "price": "?"}, ROBE, {**ROBE, "sku": "CAFE\u0301"}, {**ROBE, "sku": "CAFÉ"})

    assert answer.status_code == 207
    assert [done["sku"] for done in answer.json()["created"]] == ["CAFÉ"]
    assert [error["error"] for error in answer.json()["errors"]] == ["invalid_entry", "duplicate", "duplicate"]


def test_when_no_entry_can_be_applied_all_problems_are_named_by_their_paths(save: Any) -> None:
    answer = save({"sku": "A", "price": "x"}, 7, {**ROBE, "stock_quantity": None, "script": 1})

    body = answer.json()
    assert (answer.status_code, body["error"]) == (422, "validation_failed")
    assert list(body["errors"]) == ["products.0.name", "products.0.price", "products.1", "products.2.script"]
    assert kinds_told() == {}


@pytest.mark.parametrize(
    "body",
    [{}, {"products": None}, {"products": {}}, {"products": []}, {"products": [ROBE] * 101}, {"updates": [ROBE]}],
    ids=["missing", "null", "object", "none", "101", "another name"],
)
def test_one_to_a_hundred_entries_or_nothing(api: ApiClient, body: Any) -> None:
    answer = api.put(PRODUCTS, body)

    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["products"])
    assert not Product.objects.exists()


def test_nothing_is_written_when_the_events_cannot_be(save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhooks.events.publish", lambda *args, **kwargs: 1 / 0)

    assert save({**ROBE, "stock_quantity": 1}).status_code == 500
    assert not Product.objects.exists()
    assert not StockMovement.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("count", [1, 100])
def test_the_number_of_statements_is_constant(alice: Account, count: int) -> None:
    for number in range(50):
        ProductFactory(account=alice, sku=f"P{number}")
    drafts = [Draft(f"P{number}", "x", ProductFactory.price, stock_quantity=3) for number in range(count - 1, -1, -1)]
    drafts.append(Draft("NEW", "x", ProductFactory.price, stock_quantity=3))

    with CaptureQueriesContext(connection) as queries:
        catalog.save(alice.id, drafts, actor=Actor.of_command("test"), sets_stock=False)

    said = [query["sql"].split()[0] for query in queries]
    assert (said[0], said[-1], len(said)) == ("BEGIN", "COMMIT", 6)


# --- Reading products ------------------------------------------------------------------------------------------------


def test_they_are_listed_in_pages_by_sku(alice: Account, charlie: Account, api: ApiClient) -> None:
    ProductFactory(account=charlie, sku="A0")
    for number in range(20):
        ProductFactory(account=alice, sku=f"A{number:02}", script="x" * 2000)

    first, last = (api.get(f"{PRODUCTS}?page={page}").json() for page in (1, 2))

    assert [each["sku"] for each in first["data"] + last["data"]] == [f"A{number:02}" for number in range(20)]
    assert last["meta"] == {"total": 20, "per_page": 15, "current_page": 2, "last_page": 2}
    one = api.get(f"{PRODUCTS}/{first['data'][0]['id']}").json()
    assert {name: value for name, value in one.items() if name != "script"} == first["data"][0]
    assert len(api.get(f"{PRODUCTS}?per_page=500").json()["data"]) == 20


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("sku=B,A", ["A", "B"]),
        ("q=rob", ["A"]),
        ("is_active=false", ["B"]),
        ("stock_below=10", ["C"]),
        ("updated_from=2099-01-01", []),
    ],
)
def test_it_has_the_filters_of_the_inventory(alice: Account, api: ApiClient, query: str, found: list[str]) -> None:
    ProductFactory(account=alice, sku="A", name="Robe")
    ProductFactory(account=alice, sku="B", is_active=False)
    ProductFactory(account=alice, sku="C", stock_quantity=9)

    answer = api.get(f"{PRODUCTS}?{query}").json()

    assert [each["sku"] for each in answer["data"]] == found
    assert answer["meta"]["total"] == len(found)


def test_all_values_that_cannot_be_used_are_named(api: ApiClient) -> None:
    answer = api.get(f"{PRODUCTS}?page=0&per_page=501&is_active=1&stock_below=x&q=%00&updated_from=x&sku=,")

    assert answer.status_code == 422
    assert answer.json()["errors"].keys() == {
        "page",
        "per_page",
        "is_active",
        "stock_below",
        "q",
        "updated_from",
        "sku",
    }


def test_a_product_that_is_known_is_not_sent_again(alice: Account, api: ApiClient, save: Any) -> None:
    url = f"{PRODUCTS}/{ProductFactory(account=alice, **ROBE).id}"
    first = api.get(url)
    known = {"If-None-Match": first.headers["ETag"]}

    assert (api.get(url, headers=known).status_code, api.head(url).headers["ETag"]) == (304, known["If-None-Match"])
    save({**ROBE, "script": "new"})
    assert api.get(url, headers=known).json()["script"] == "new"


def test_anothers_product_is_like_nobodys(charlie: Account, alice: Account, api: ApiClient, save: Any) -> None:
    theirs = ProductFactory(account=charlie, sku="ROBE")

    answers = [api.get(f"{PRODUCTS}/{id_}") for id_ in (theirs.id, uuid4(), "x")]

    assert {(answer.status_code, answer.content) for answer in answers} == {(404, answers[0].content)}
    assert save(ROBE).json()["created"]
    assert (stock_of(theirs), Product.objects.get(id=theirs.id).name) == (10, theirs.name)


def test_the_scopes(alice: Account, api_for: Any) -> None:
    stock, reader = (
        api_for(alice, scopes=["inventory:read", "inventory:write"]),
        api_for(alice, scopes=["products:read"]),
    )
    body = {"products": [ROBE]}

    assert reader.get(PRODUCTS).status_code == 200
    for client, verb, scope in ((stock, "get", "products:read"), (reader, "put", "products:write")):
        answer = getattr(client, verb)(PRODUCTS, body if verb == "put" else None, content_type="application/json")
        assert (answer.status_code, scope in answer.json()["message"]) == (403, True)
    assert not Product.objects.exists()


@pytest.mark.parametrize("method", ["post", "patch", "delete", "options"])
def test_other_methods_are_not_allowed(api: ApiClient, method: str) -> None:
    assert getattr(api, method)(PRODUCTS).status_code == 405


def test_a_product_is_never_deleted(alice: Account, api: ApiClient) -> None:
    product = ProductFactory(account=alice)
    answer = api.delete(f"{PRODUCTS}/{product.id}")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert Product.objects.filter(id=product.id).exists()

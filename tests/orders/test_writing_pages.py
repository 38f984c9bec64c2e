"""A merchant writes an order down: by the rules of an import, and once, however often the form is sent."""

import re
import time
from decimal import Decimal
from html import unescape
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client

from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, SecurityEntry
from codservice.errors import Invalid
from orders import amending, editing, lifecycle
from orders.forms import CorrectionForm, LineForm, OrderForm
from orders.models import (
    MAX_ATTRIBUTE_NAME,
    MAX_ATTRIBUTE_VALUE,
    MAX_ATTRIBUTES,
    MAX_LINES,
    Order,
    OrderItem,
    ShippingFee,
)
from orders.serializers import SENT, SENT_OF_LINE
from tests.factories import AgentFactory, ProductFactory, make_order, order_line
from tests.orders.moves import edits

PAGE = "/account/orders/new"


def send(browser: Client, **changes: Any) -> HttpResponse:
    data = {
        "customer_name": "Amine", "customer_phone": "0550 12 34 56", "customer_phone_2": "",
        "customer_wilaya": "16", "customer_commune": "Bab El Oued", "delivery_type": "home",
        "customer_address": "3, rue Didouche", "notes": "", "shipping_fee": "400", "total_amount": "",
        "external_id": "", "source": "facebook", "line-0-product": "Robe", "line-0-quantity": "2",
        "line-0-unit_price": "2 500,50", "line-1-product": "", "line-1-quantity": "1", "line-1-unit_price": "",
    }  # fmt: skip
    return browser.post(PAGE, data | changes)


def problems(answer: HttpResponse) -> list[str]:
    assert answer.status_code == 422
    return re.findall(r'<p class="problem" role="alert">(.*?)</p>', answer.content.decode())


def test_an_order_is_taken_as_an_import_takes_it(browser: Client, alice: Account) -> None:
    answer = send(browser)
    order = Order.objects.get()
    assert answer.url == f"/account/orders/{order.id}"
    assert (order.account, order.status, order.customer_name) == (alice, "pending_confirmation", "Amine")
    assert (order.customer_phone, order.phone_e164) == ("0550 12 34 56", "+213550123456")
    assert (order.wilaya_code, order.commune_code) == ("16", "1605")
    assert (order.total_amount, order.shipping_fee) == (Decimal("5401.00"), Decimal("400.00"))
    assert [(line.product_name, line.quantity, line.unit_price) for line in order.items.all()] == [
        ("Robe", 2, Decimal("2500.50"))
    ]
    assert (order.delivery_type, order.source, order.external_id) == ("home", "facebook", None)
    assert order.status_changes.get().actor == alice.holder.display_name


def test_a_sku_is_the_product_with_its_name_and_price(browser: Client, alice: Account) -> None:
    product = ProductFactory(account=alice, sku="ROBE-M", name="Robe M", price=Decimal("1900"))
    send(browser, **{"line-0-product": "ROBE-M", "line-0-unit_price": "", "total_amount": "2000"})
    line = Order.objects.get().items.get()
    assert (line.product_id, line.product_name, line.unit_price) == (product.id, "Robe M", Decimal("1900"))
    assert line.order.total_amount == Decimal("2000")


def test_the_fee_is_that_of_the_wilaya_when_none_is_written(browser: Client, alice: Account) -> None:
    ShippingFee.objects.create(account=alice, wilaya_code="16", home=500, desk=Decimal("350.50"))
    send(browser, shipping_fee="", delivery_type="desk")
    send(browser, shipping_fee="", delivery_type="home", customer_wilaya="31", customer_commune="")
    send(browser, shipping_fee="0")
    assert [(o.shipping_fee, o.total_amount) for o in Order.objects.order_by("created_at")] == [
        (Decimal("350.50"), Decimal("5351.50")),
        (Decimal(0), Decimal("5001.00")),
        (Decimal(0), Decimal("5001.00")),
    ]


def test_a_line_has_details_one_on_each_line(browser: Client) -> None:
    written = " size : M \r\n\r\nCouleur\u202f:\tbleu: nuit\r\nالمقاس: كبير\r\n"
    assert send(browser, **{"line-0-details": written}).status_code == 302
    line = Order.objects.get().items.get()
    assert line.attributes == {"size": "M", "Couleur": "bleu: nuit", "المقاس": "كبير"}


@pytest.mark.parametrize(
    ("language", "label", "example", "sentence"),
    [
        ("fr", "Détails", "taille\u202f: M", "n’est pas lisible. Écrivez un nom, deux-points et une valeur."),
        ("ar-dz", "التفاصيل", "المقاس: M", "اكتب اسما ثم نقطتين ثم قيمة."),
    ],
)  # fmt: skip
def test_details_are_asked_for_in_the_readers_language(
    browser: Client, language: str, label: str, example: str, sentence: str
) -> None:
    browser.cookies.load({"django_language": language})
    page = browser.get(PAGE).content.decode()
    assert page.count(f">{label}</label>") == page.count(example) == 3
    (said,) = problems(send(browser, **{"line-0-details": "M"}))
    assert said.endswith(sentence)


def test_who_writes_a_products_name_is_told_its_sku(browser: Client, alice: Account, charlie: Account) -> None:
    for account, sku, name in (alice, "ROBE-M", "Robe"), (alice, "ROBE-L", "robe"), (charlie, "ROBE-X", "Robe"):
        ProductFactory(account=account, sku=sku, name=name)
    answer = send(browser, **{"line-0-product": "ROBE", "line-0-unit_price": ""})
    assert problems(answer) == ["Enter the SKU of your product (ROBE-L, ROBE-M), or a price."]


def test_a_sku_of_anothers_is_none(browser: Client, charlie: Account) -> None:
    ProductFactory(account=charlie, sku="ROBE-M")
    answer = send(browser, **{"line-0-product": "ROBE-M", "line-0-unit_price": "", "customer_phone": "12"})
    assert problems(answer) == [
        "Enter an Algerian phone number, such as 0550 12 34 56.",
        "Enter a price: none of your products has this SKU.",
    ], "all at once"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", ["", "N-1"])
@pytest.mark.parametrize("another", [{}, {"another": "1"}], ids=["one", "and another"])
def test_what_is_sent_twice_is_one_order(browser: Client, alice: Account, number: str, another: dict[str, str]) -> None:
    """Also if only the second answer arrives."""
    ProductFactory(account=alice, sku="ROBE-M", price=Decimal("1900"))
    form = re.search(r'name="id" value="([^"]+)"', browser.get(PAGE).content.decode())[1]
    lines = {"line-0-details": "size: M", "line-1-product": "ROBE-M"}
    sent = {"id": form, "external_id": number, "customer_phone_2": "021 65 43 21", "source": "", **lines, **another}
    for _time in range(2):
        answer = send(browser, **sent)
        order = Order.objects.get()
        assert answer.url == (PAGE if another else f"/account/orders/{order.id}")
        assert "The order is created." in (page := browser.get(answer.url).content.decode())
        assert "not saved" not in page


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", ["", "N-1"])
def test_who_goes_back_and_writes_another_order_in_the_same_form_is_told(browser: Client, number: str) -> None:
    form = re.search(r'name="id" value="([^"]+)"', browser.get(PAGE).content.decode())[1]
    send(browser, id=form, external_id=number, another="1")
    browser.get(PAGE)  # which says that the order is created
    answer = send(browser, id=form, external_id=number, another="1", customer_name="Lynda")
    order = Order.objects.get()
    assert answer.url == f"/account/orders/{order.id}"
    assert "What you sent now was not saved." in browser.get(answer.url).content.decode()


@pytest.mark.django_db(transaction=True)
def test_an_id_of_anothers_order_is_not_ours(browser: Client, charlie: Account) -> None:
    theirs = make_order(charlie)
    assert send(browser, id=str(theirs.id)).status_code == 404
    assert Order.objects.count() == 1


def id_made(seconds: float) -> str:
    """An id of version 7 of this moment and some seconds."""
    return str(UUID(int=int((time.time() + seconds) * 1000) << 80 | 7 << 76 | 2 << 62))


def test_nobody_chooses_an_orders_place_in_the_consoles_list(browser: Client, alice: Account) -> None:
    before = make_order(alice)
    for sent in ("", "x", str(UUID(int=0)), id_made(-8 * 86_400), id_made(3600), str(UUID(int=2**128 - 1))):
        assert send(browser, id=sent).status_code == 302
    assert before.id < min(new := Order.objects.exclude(id=before.id).values_list("id", flat=True))
    assert max(new) < make_order(alice).id


MOST = "99\u202f999\u202f999.99"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"customer_name": ""}, "This field is required."),
        ({"customer_name": "\u200b\u3164"}, "This field is required."),
        ({"customer_phone": "12"}, "Enter an Algerian phone number, such as 0550 12 34 56."),
        ({"customer_wilaya": "77"}, "Select a valid choice. 77 is not one of the available choices."),
        ({"customer_commune": "Atlantis"}, "“Atlantis” is not a commune of this wilaya."),
        ({"customer_address": "\x01"}, "This text has characters that cannot be stored. Remove or replace them."),
        ({"line-0-quantity": "0"}, "Ensure this value is greater than or equal to 1."),
        ({"line-0-unit_price": "ten"}, "Enter an amount such as 400 or 400.50."),
        ({"line-0-product": "", "line-0-quantity": "1", "line-0-unit_price": ""}, "Enter at least one product."),
        ({"line-0-unit_price": "100000000"}, f"Enter an amount of at most {MOST}."),
        ({"line-1-unit_price": "5"}, "This field is required."),
        ({"line-1-quantity": "3"}, "This field is required."),
        ({"line-1-details": "size: M"}, "This field is required."),
        ({"line-0-details": "size: M\r\n<b>"}, "“&lt;b&gt;” cannot be read. Write a name, a colon and a value."),
        ({"line-0-details": "size: \u200b"}, "“size: \u200b” cannot be read. Write a name, a colon and a value."),
        ({"line-0-details": ": M"}, "“: M” cannot be read. Write a name, a colon and a value."),
        ({"line-0-details": "size: M\r\nsize: L"}, "Two details of a line have the same name: size"),
        (
            {"line-0-details": "\n".join(f"{n}: x" for n in range(MAX_ATTRIBUTES + 1))},
            "A line can have at most 20 details.",
        ),
        (
            {"line-0-details": f"{'n' * (MAX_ATTRIBUTE_NAME + 1)}: x"},
            "The name of a detail cannot be used: it is empty, too long or has characters that cannot be stored.",
        ),
        (
            {"line-0-details": f"<i>: {'x' * (MAX_ATTRIBUTE_VALUE + 1)}"},
            "&lt;i&gt;: Must have at most 255 characters.",
        ),
        (
            {"line-0-quantity": "10000", "line-0-unit_price": "10000"},
            f"The total would become 100\u202f000\u202f400: it must be from 0 to {MOST}.",
        ),
        ({"external_id": "taken"}, "You already have an order with this number."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_its_field_and_nothing_is_lost(
    browser: Client, alice: Account, changes: dict[str, str], sentence: str
) -> None:
    make_order(alice, external_id="taken")
    answer = send(browser, **{"notes": "Call <after> five"} | changes)
    assert problems(answer) == [sentence]
    assert "Call &lt;after&gt; five" in answer.content.decode()
    assert Order.objects.count() == 1


def test_who_has_the_number_of_an_order_that_is_gone_by_now_may_create_theirs_again(
    browser: Client, alice: Account
) -> None:
    taken = make_order(alice, external_id="taken")

    def delete_before_it_is_looked_for(execute: Any, sql: str, *args: Any) -> Any:
        if "AS wanted" in sql:
            Order.objects.filter(id=taken.id).delete()
        return execute(sql, *args)

    with connection.execute_wrapper(delete_before_it_is_looked_for):
        answer = send(browser, external_id="taken")
    assert problems(answer) == ["The order that had this number is gone by now. Create yours again."]
    assert send(browser, external_id="taken").status_code == 302


def test_that_a_product_is_missing_is_said_at_the_first_product(browser: Client, order: Order) -> None:
    lines = {f"line-{number}-{name}": "" for number in range(3) for name in ("product", "unit_price")}
    for answer in (send(browser, **lines), correct(browser, order, **lines)):
        assert problems(answer) == ["Enter at least one product."]
        text = answer.content.decode()
        (field,) = re.findall(r"<input [^>]*aria-invalid[^>]*>", text)  # begin.js gives it the focus
        assert 'name="line-0-product"' in field
        (said_by,) = re.findall(r'aria-describedby="(.*?)"', field)
        assert "Enter at least one product." in text.split(f'id="{said_by}"')[1][:200]


def test_enter_in_a_field_sends_the_order(browser: Client, alice: Account) -> None:
    """Enter presses a form's first button."""
    order = make_order(alice)
    for path, button in ((PAGE, "Create the order"), (f"/account/orders/{order.id}/correct", "Save the changes")):
        form = browser.get(path).content.decode().split('class="order-form"')[1]
        first, said = re.findall(r"<button([^>]*)>(.*?)</button>", form)[0]
        assert ("name=" in first, said) == (False, button)


def test_more_lines_keep_what_is_written_and_blame_nobody(browser: Client) -> None:
    answer = send(browser, more="1", customer_name="", **{"line-1-product": "Voile"})
    text = answer.content.decode()
    assert answer.status_code == 200
    assert "problem" not in text
    assert text.count("order-line") == 5
    assert 'value="Voile"' in text
    assert Order.objects.count() == 0


def test_more_lines_are_written_at_once(browser: Client, order: Order) -> None:
    """Someone with only a keyboard is not sent back to the top of the page."""
    correction = browser.post(f"/account/orders/{order.id}/correct", fields(browser, order) | {"more": "1"})
    for answer, number in ((send(browser, more="1"), 2), (correction, 2)):
        first = re.findall(r"<input [^>]*autofocus[^>]*>", answer.content.decode())
        assert [re.findall(r'name="(.*?)"', field) for field in first] == [[f"line-{number}-product"]]


def test_another_can_be_written_at_once(browser: Client) -> None:
    assert send(browser, another="1").url == PAGE
    assert "The order is created" in browser.get(PAGE).content.decode()


@pytest.mark.parametrize("mode", ["live", "test"])
def test_only_where_agents_call_is_a_call_announced(browser: Client, alice: Account, mode: str) -> None:
    alice.ensure_twin()
    browser.post("/account/mode", {"to": mode})
    shown = browser.get(send(browser).url).content.decode()
    assert "The order is created." in shown
    assert ("An agent will call" in shown) is (mode == "live")


def test_an_order_that_has_ended_is_the_beginning_of_a_new_one(
    browser: Client, alice: Account, charlie: Account
) -> None:
    """As one that an agent canceled by mistake, or that came back: nothing else opens it again."""
    lines = [order_line(product_name="Robe", unit_price=Decimal("2500"), quantity=2, attributes={"taille": "M"})]
    facts = {"external_id": "77", "source": "facebook", "notes": "Le soir", "total_amount": Decimal("5000")}
    old = make_order(alice, items=lines, **facts)
    assert browser.get(f"{PAGE}?like={old.id}").status_code == 404
    lifecycle.cancel(old.id, reason="Fake order", actor=Actor(Role.AGENT, "Samira"))
    link = re.search(r'href="(/account/orders/new[^"]*)"', browser.get(f"/account/orders/{old.id}").content.decode())
    assert link

    form = browser.get(unescape(link[1])).context["form"]
    sent = {field.html_name: field.value() for part in (form, *form.lines) for field in part}
    assert (sent["id"] != old.id, sent["external_id"], sent["total_amount"]) == (True, None, "")
    sent |= {"line-0-quantity": "3", "external_id": "77-2"}
    answer = browser.post(unescape(link[1]), {name: "" if value is None else value for name, value in sent.items()})

    new = Order.objects.exclude(id=old.id).get()
    assert (answer.url, new.status, new.external_id) == (f"/account/orders/{new.id}", "pending_confirmation", "77-2")
    assert (new.phone_e164, new.source, new.notes, new.total_amount) == (old.phone_e164, "facebook", "Le soir", 7500)
    assert [(line.product_name, line.quantity, line.attributes) for line in new.items.all()] == [
        ("Robe", 3, {"taille": "M"})
    ]
    Order.objects.filter(id=old.id).update(anonymised_at=old.created_at)
    sent = {name: "" if value is None else value for name, value in sent.items()} | {"id": "", "external_id": "77-3"}
    assert browser.post(unescape(link[1]), sent).status_code == 302, "nothing that was written is lost"
    assert OrderItem.objects.get(order__external_id="77-3").attributes == {"taille": "M"}
    assert "?like=" not in browser.get(f"/account/orders/{old.id}").content.decode()
    theirs = make_order(charlie)
    lifecycle.cancel(theirs.id, reason="", actor=Actor(Role.AGENT, "Samira"))
    for id_ in (old.id, theirs.id, UUID(int=1), "x", ""):
        assert browser.get(f"{PAGE}?like={id_}").status_code == 404


def filled(answer: HttpResponse) -> dict[str, Any]:
    """Return the form of a page as it is filled in."""
    form = answer.context["form"]
    values = {field.html_name: field.value() for part in (form, *form.lines) for field in part}
    return {name: "" if value is None else value for name, value in values.items()}


def test_another_product_in_a_new_order_like_an_old_one_has_its_own_price(
    browser: Client, order: Order, alice: Account
) -> None:
    ProductFactory(account=alice, sku="A-1", name="Article", price=Decimal("1500"))
    Order.objects.update(total_amount=4300, shipping_fee=0)
    lifecycle.cancel(order.id, reason="", actor=Actor(Role.AGENT, "Samira"))
    like = f"{PAGE}?like={order.id}"
    sent = filled(browser.get(like)) | {"line-0-product": "A-1"}
    answer = browser.post(like, filled(browser.post(like, sent | {"more": "1"})))
    new = Order.objects.get(id=answer.url.split("/")[-1])
    line = new.items.get(position=0)
    assert (line.sku, line.unit_price, line.attributes, new.total_amount) == ("A-1", 1500, {"items": "M"}, 3500)


@pytest.fixture
def own_fees(alice: Account) -> None:
    ShippingFee.objects.create(account=alice, wilaya_code="01", home=1200, desk=Decimal("800.50"))
    ShippingFee.objects.create(account=alice, wilaya_code="16", home=400, desk=400)
    ShippingFee.objects.create(account=alice, wilaya_code="31", home=700)


@pytest.mark.usefixtures("own_fees")
def test_a_new_order_like_an_old_one_shows_the_fee_of_another_place_once(browser: Client, order: Order) -> None:
    Order.objects.update(total_amount=4700, shipping_fee=400)
    lifecycle.cancel(order.id, reason="", actor=Actor(Role.AGENT, "Samira"))
    like = f"{PAGE}?like={order.id}"
    moved = filled(browser.get(like)) | {"customer_wilaya": "01", "customer_commune": "", "customer_phone": "12"}
    refused = browser.post(like, filled(browser.post(like, moved | {"more": "1"})))
    assert len(problems(refused)) == 2, "both at once"
    answer = browser.post(like, filled(refused) | {"customer_phone": "0550 12 34 56"})
    new = Order.objects.get(id=answer.url.split("/")[-1])
    assert (new.wilaya_code, new.shipping_fee, new.total_amount) == ("01", 1200, 5500)


def test_wilayas_are_named_in_the_readers_language(browser: Client) -> None:
    browser.cookies.load({"django_language": "ar-dz"})
    assert "16 الجزائر" in browser.get(PAGE).content.decode()


# --- Corrections -----------------------------------------------------------------------------------------------------


@pytest.fixture
def order(alice: Account) -> Order:
    product = ProductFactory(account=alice, sku="ROBE-M", name="Robe M", price=Decimal("1900"))
    line = order_line(product_id=str(product.id), quantity=2, unit_price=1900, attributes={"items": "M"})
    return make_order(alice, items=[line, order_line(product_name="Voile", quantity=1, unit_price=500)], notes="")


def fields(browser: Client, order: Order) -> dict[str, str]:
    """Return the page's form as it is filled in."""
    html = browser.get(f"{PAGE[:-3]}{order.id}/correct").content.decode()
    found = {name: unescape(value) for name, value in re.findall(r'<input [^>]*?name="([^"]+)" value="([^"]*)"', html)}
    found |= {
        name: unescape(text)
        for name, text in re.findall(r'<textarea name="([\w-]+)".*?>\s*(.*?)</textarea>', html, re.S)
    }
    options = re.findall(r'<select name="(\w+)".*?<option value="([^"]+)" selected', html, re.S)
    return found | dict(options)


def correct(browser: Client, order: Order, **changes: str) -> HttpResponse:
    data = {"line-2-product": "", "line-2-quantity": "1", "line-2-unit_price": ""} | fields(browser, order) | changes
    return browser.post(f"{PAGE[:-3]}{order.id}/correct", data)


def test_a_new_field_of_orders_is_asked_for_and_shown_again(order: Order) -> None:
    """A correction would empty any field that its form does not show."""
    form = CorrectionForm(order=order)

    assert OrderForm.base_fields.keys() == {"id", "shown_fee", "fee_for", *SENT}
    assert form.fields.keys() == form.initial.keys()
    asked = {"product_id": "product", "product_name": "product", "attributes": "details"}
    assert LineForm.base_fields.keys() == {"item", "shown_price", *(asked.get(name, name) for name in SENT_OF_LINE)}


@pytest.mark.parametrize(("language", "commune"), [("fr", "Bab El Oued"), ("ar-dz", "باب الوادي")])
def test_the_form_unchanged_changes_nothing(language: str, commune: str, browser: Client, order: Order) -> None:
    Order.objects.update(customer_commune="bab el oued", commune_code="1605")
    browser.cookies["django_language"] = language
    assert fields(browser, order)["customer_commune"] == commune
    assert correct(browser, order).status_code == 302
    assert edits(order) == {}
    assert not SecurityEntry.objects.filter(action="order_corrected").exists()


def test_a_line_whose_name_is_a_sku_by_now_keeps_its_name(browser: Client, order: Order, alice: Account) -> None:
    ProductFactory(account=alice, sku="Voile", name="Voile de coton", price=Decimal("700"))
    correct(browser, order, customer_phone="0550 99 88 77")
    assert edits(order).keys() == {"customer_phone"}


def test_another_product_has_its_own_price_unless_one_is_written(browser: Client, order: Order, alice: Account) -> None:
    article = ProductFactory(account=alice, sku="A-1", name="Article", price=Decimal("1500"))
    total = order.total_amount
    correct(browser, order, **{"line-0-product": "A-1"})
    line = order.items.get(position=0)
    assert (line.product_id, line.product_name, line.unit_price) == (article.id, "Article", Decimal(1500))
    assert line.attributes == {"items": "M"}
    order.refresh_from_db()
    assert order.total_amount == total - 2 * 400
    correct(browser, order, **{"line-0-product": "ROBE-M", "line-0-unit_price": "1700"})
    assert order.items.get(position=0).unit_price == Decimal(1700)
    correct(browser, order, **{"line-0-product": "ROBE-M"})
    assert order.items.get(position=0).unit_price == Decimal(1700), "it is the same product"


@pytest.mark.usefixtures("own_fees")
def test_a_fee_left_from_another_place_is_not_saved_until_the_one_there_is_shown(browser: Client, order: Order) -> None:
    Order.objects.update(total_amount=4700, shipping_fee=400)
    page = f"{PAGE[:-3]}{order.id}/correct"
    sent = filled(browser.get(page)) | {"customer_commune": ""}
    answer = browser.post(page, sent | {"customer_wilaya": "01", "delivery_type": "desk"})
    assert problems(answer) == ["Nothing has been saved yet. Check your fee for Adrar (Stop desk): 800.50 DA."]
    sent = filled(answer)
    assert (sent["shipping_fee"], edits(order)) == ("800.50", {})
    answer = browser.post(page, sent | {"customer_wilaya": "31", "delivery_type": "home"})
    assert problems(answer) == ["Nothing has been saved yet. Check your fee for Oran (Home delivery): 700 DA."]
    for _press in range(2):
        assert browser.post(page, filled(answer)).status_code == 302
        order.refresh_from_db()
        assert (order.version, order.wilaya_code, order.shipping_fee, order.total_amount) == (2, "31", 700, 5000)


@pytest.mark.usefixtures("own_fees")
@pytest.mark.parametrize(
    ("changes", "fee"),
    [
        ({"customer_wilaya": "01", "shipping_fee": "500"}, 500),
        ({"customer_wilaya": "01", "shipping_fee": ""}, 1200),
        ({"customer_wilaya": "31", "delivery_type": "desk"}, 450),  # for which the merchant has set none
        ({"delivery_type": "home"}, 450),
    ],
)
def test_a_fee_that_is_written_or_without_another_is_saved_at_once(
    changes: dict[str, str], fee: int, browser: Client, order: Order
) -> None:
    Order.objects.update(shipping_fee=450, delivery_type="home", wilaya_code="16", customer_wilaya="16")
    assert correct(browser, order, customer_commune="", **changes).status_code == 302
    order.refresh_from_db()
    assert order.shipping_fee == fee


@pytest.mark.usefixtures("own_fees")
def test_the_fee_is_the_merchants_to_decide(browser: Client, order: Order) -> None:
    Order.objects.update(shipping_fee=400)
    page = f"{PAGE[:-3]}{order.id}/correct"
    answer = correct(browser, order, customer_wilaya="01", customer_commune="")
    assert browser.post(page, filled(answer) | {"shipping_fee": "400"}).status_code == 302
    order.refresh_from_db()
    assert (order.wilaya_code, order.shipping_fee) == ("01", 400)


def test_what_is_corrected_is_in_the_history(browser: Client, order: Order) -> None:
    total = order.total_amount
    correct(browser, order, customer_address="14, rue Larbi", customer_phone_2="0661234567", delivery_type="desk")
    order.refresh_from_db()
    assert (order.customer_address, order.phone_2_e164, order.delivery_type) == (
        "14, rue Larbi", "+213661234567", "desk"
    )  # fmt: skip
    assert edits(order).keys() == {"customer_address", "customer_phone_2", "delivery_type"}
    assert order.total_amount == total


def test_a_line_is_changed_taken_out_and_added_and_keeps_its_product_and_attributes(
    browser: Client, order: Order
) -> None:
    lines = {
        "line-0-quantity": "1",
        "line-1-product": "\u200b",
        "line-2-product": "Ceinture",
        "line-2-unit_price": "300",
    }
    correct(browser, order, total_amount="", shipping_fee="400", **lines)
    order.refresh_from_db()
    kept, new = order.items.order_by("position")
    assert (kept.sku, kept.quantity, kept.attributes) == ("ROBE-M", 1, {"items": "M"})
    assert (new.product_name, new.product_id, new.attributes) == ("Ceinture", None, {})
    assert order.total_amount == Decimal("2600")


# Two are shown as the same text, and another is empty; a name is a dict's method, and one a piece of a page.
HOSTILE = {"a:b": "c", "a: b": "c", "a": "b: c", "size": "", "items": "M", "</textarea><script>": "{{ order }}"}


@pytest.mark.parametrize(
    ("changes", "attributes"),
    [
        ({"notes": "Call at six"}, HOSTILE | {"two\nlines": "x\r\n\ty"}),
        ({"line-0-quantity": "3"}, HOSTILE),
        ({"line-0-product": "Jupe", "line-0-unit_price": "900"}, HOSTILE),
    ],
)
def test_details_that_are_left_stay_exactly_as_they_are(
    browser: Client, order: Order, changes: dict[str, str], attributes: dict[str, str]
) -> None:
    order.items.filter(position=0).update(attributes=attributes)
    assert correct(browser, order, **changes).status_code == 302
    assert "attributes" not in str(edits(order).keys())
    assert order.items.get(position=0).attributes == attributes


def test_details_are_corrected_and_what_is_left_of_them_stays(browser: Client, order: Order) -> None:
    order.items.filter(position=0).update(attributes={"a:b": "c", "size": "", "colour": "bleu"})
    shown = fields(browser, order)["line-0-details"]
    assert sorted(shown.split("\n")) == ["a:b: c", "colour: bleu", "size:"]
    correct(browser, order, **{"line-0-details": shown.replace("bleu", "noir") + "\r\ntissu: lin"})
    assert order.items.get(position=0).attributes == {"a:b": "c", "size": "", "colour": "noir", "tissu": "lin"}
    correct(browser, order, **{"line-0-details": ""})
    assert order.items.get(position=0).attributes == {}


def test_a_form_that_was_opened_before_it_asked_for_details_changes_none(browser: Client, order: Order) -> None:
    sent = {name: value for name, value in fields(browser, order).items() if not name.endswith("-details")}
    browser.post(f"{PAGE[:-3]}{order.id}/correct", sent | {"line-0-quantity": "3"})
    line = order.items.get(position=0)
    assert (line.quantity, line.attributes) == (3, {"items": "M"})


def test_an_order_of_as_many_lines_as_there_may_be_offers_no_other(browser: Client, alice: Account) -> None:
    """One more would be shown but not read."""
    line = order_line(product_name="Robe", quantity=1, unit_price=10)
    order = make_order(alice, items=[line] * MAX_LINES, total_amount=1000)
    assert sum(name.endswith("-quantity") for name in fields(browser, order)) == MAX_LINES


def test_a_total_that_is_left_follows_the_lines_and_the_fee(browser: Client, order: Order) -> None:
    """2 robes at 1900 and a scarf at 500, less 300."""
    Order.objects.filter(id=order.id).update(total_amount=4400, shipping_fee=400)
    correct(browser, order, **{"line-0-quantity": "3", "shipping_fee": "600"})
    order.refresh_from_db()
    assert order.total_amount == 4400 + 1900 + 200
    correct(browser, order, total_amount="6000", **{"line-0-quantity": "1"})
    order.refresh_from_db()
    assert order.total_amount == 6000, "what was written is what is paid"
    correct(browser, order, total_amount="", **{"line-0-unit_price": "4900"})
    order.refresh_from_db()
    assert order.total_amount == 4900 + 500 + 600, "the sum, which happens to be what it was"


def test_a_total_that_would_fall_below_nothing_is_said_at_its_field(browser: Client, order: Order) -> None:
    """The lines make 4300, of which all but 300 are taken off."""
    Order.objects.filter(id=order.id).update(total_amount=300, shipping_fee=0)
    browser.cookies.load({"django_language": "fr"})
    answer = correct(browser, order, **{"line-0-quantity": "1"})
    assert problems(answer) == [
        "Le total deviendrait -1\u202f600\u202f: il doit être compris entre 0 et 99\u202f999\u202f999,99."
    ]
    assert answer.context["form"].errors.keys() == {"total_amount"}
    assert edits(order) == {}


def test_what_the_rules_alone_refuse_is_said_in_the_readers_language(
    browser: Client, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise Invalid({"notes": ["Must not be empty."], "items.0.quantity": ["Must be from 1 to 10000."]})

    monkeypatch.setattr(amending, "amend", refuse)
    browser.cookies.load({"django_language": "fr"})
    answer = correct(browser, order)
    assert answer.context["form"].errors == {
        "notes": ["Ne doit pas être vide."], "__all__": ["Doit être compris entre 1 et 10\N{NARROW NO-BREAK SPACE}000."]
    }  # fmt: skip


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(browser: Client, order: Order, alice: Account) -> None:
    seen = fields(browser, order)
    amending.amend(alice.id, order.id, {"notes": "Call at five"}, actor=Actor(Role.MERCHANT, "shop"))
    answer = browser.post(f"{PAGE[:-3]}{order.id}/correct", seen | {"notes": "Call at six"})
    assert answer.status_code == 409
    assert "The order has changed since you opened it." in answer.content.decode()
    assert "Call at six</textarea>" in answer.content.decode(), "what was written is not lost"
    order.refresh_from_db()
    assert order.notes == "Call at five"


@pytest.mark.parametrize(
    "changes",
    [
        {"customer_name": "Lynda Aït", "notes": "Call at six"},
        {"line-0-quantity": "3"},
        {"line-0-quantity": "3", "total_amount": ""},
        {"line-0-quantity": "3", "total_amount": "4000"},
        {"line-0-details": "taille: M\r\nnom: Robe: rouge\r\nitems: L"},
        {"line-0-product": "", "line-2-product": "ROBE-M", "line-2-quantity": "5", "line-2-unit_price": ""},
        {"line-1-product": "ROBE-M"},
    ],
)
def test_a_second_press_is_not_told_that_somebody_else_changed_it(
    changes: dict[str, str], browser: Client, order: Order
) -> None:
    """This also holds for someone who sends the form again because its answer was lost."""
    sent, versions = {"line-2-product": "", "line-2-unit_price": ""} | fields(browser, order) | changes, []
    for _ in range(2):
        answer = browser.post(f"{PAGE[:-3]}{order.id}/correct", sent, follow=True)
        assert "The order is saved." in answer.content.decode()
        order.refresh_from_db()
        versions.append(order.version)
    assert versions == [2, 2]
    assert SecurityEntry.objects.filter(action="order_corrected").count() == 1


def test_a_decided_order_is_not_corrected_but_nothing_written_is_lost(browser: Client, order: Order) -> None:
    written = fields(browser, order) | {"notes": "Call at six", "line-2-product": "ROBE-M", "line-2-quantity": "5"}
    lifecycle.confirm(order.id, actor=Actor.of_staff(AgentFactory()))
    opened = browser.get(f"{PAGE[:-3]}{order.id}/correct")
    assert opened.url == f"/account/orders/{order.id}"
    answer = browser.post(f"{PAGE[:-3]}{order.id}/correct", written)
    assert answer.status_code == 422
    html = answer.content.decode()
    assert "The order has been decided and can no longer be changed." in html
    assert "Call at six</textarea>" in html
    assert 'value="ROBE-M"' in html
    assert edits(order) == {}


def test_a_correction_for_which_an_order_has_no_room_is_not_lost(
    browser: Client, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(editing, "FEW_CHANGES", 0)
    monkeypatch.setattr(editing, "MOST_EDITS", 1)
    answer = correct(browser, order, notes="Call at six", customer_name="Lynda Aït")
    assert answer.status_code == 422
    assert "This order has reached the maximum number of changes." in answer.content.decode()
    assert "Call at six</textarea>" in answer.content.decode()
    assert edits(order) == {}


def test_an_order_of_anothers_is_not_there(browser: Client, charlie: Account) -> None:
    theirs = make_order(charlie)
    assert browser.get(f"{PAGE[:-3]}{theirs.id}/correct").status_code == 404
    assert browser.post(f"{PAGE[:-3]}{theirs.id}/correct", {"notes": "x"}).status_code == 404
